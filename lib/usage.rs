//! Usage errors: mistakes in the command line that clap cannot find by itself.
//!
//! Any layer may return one. `cli::main` looks for [`Usage`] in the error chain
//! and then exits with status 2 instead of 1.

/// A mistake in the flags, such as two that exclude each other or a value that
/// only a file can refute. The text is shown to the user as it is.
///
/// Return it before any output is created: exit status 2 promises that nothing
/// was done.
///
/// ```
/// use tarpipe::usage::Usage;
///
/// fn check(parallel: usize, ordered: bool) -> anyhow::Result<()> {
///     if ordered && parallel > 1 {
///         anyhow::bail!(Usage("--ordered needs -j 1".into()));
///     }
///     Ok(())
/// }
/// assert!(check(4, true).unwrap_err().is::<Usage>());
/// ```
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
