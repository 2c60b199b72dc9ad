//! A mistake in the flags, found by any layer: the exit status is 2 and nothing was done.

/// A mistake in the flags that only a look at several of them shows. Exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
