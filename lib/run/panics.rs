//! Containment of panics in third-party decoders: hostile data costs one item,
//! not the run.
//!
//! Image, parquet and arrow decoders are written in safe Rust, but may panic on
//! malformed input. Their calls go through [`catch`]; panics anywhere else are
//! bugs and are reported as such by the hook that `cli::main` sets.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use anyhow::{Result, bail};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics inside of [`catch`] from being printed as bugs; all others are
/// printed as before. Call it before the first [`catch`]; later calls do
/// nothing.
pub fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                tell(panic);
            }
        }));
    });
}

/// Runs `work` and returns its result, or None if it panicked.
///
/// `work` may leave data that it was changing half done. The caller must
/// overwrite such data before using it again, as is the case with buffers, or
/// drop it.
///
/// ```
/// use tarpipe::run::panics;
///
/// panics::silence();
/// assert_eq!(panics::catch(|| "7".parse::<u8>().unwrap()), Some(7));
/// assert_eq!(panics::catch(|| "x".parse::<u8>().unwrap()), None);
/// ```
pub fn catch<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    result.ok()
}

/// Runs a decoder and turns a panic into an error that says that the data is
/// damaged. Calls [`silence`] itself.
pub fn or_damaged<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    silence();
    catch(work).unwrap_or_else(|| bail!("the data is damaged: its decoder panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_no_result() {
        silence();
        assert_eq!(catch::<()>(|| panic!("on purpose")), None);
        assert_eq!(catch(|| 7), Some(7));
    }
}
