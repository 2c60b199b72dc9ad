//! A decoder that panics on hostile data costs its item, not the run.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use anyhow::{Result, bail};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics under guard from being told as bugs of ours; all others are told as before.
/// Called before any work under guard; the first call counts.
pub fn install() {
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

/// Runs work on one item; None if it panics. What the work leaves half done must be overwritten
/// by the next item, as buffers are.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    result.ok()
}

/// Runs a reader of a file that other people's code decodes: where that panics, the file is damaged.
pub fn unless_damaged<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    install();
    guarded(work).unwrap_or_else(|| bail!("the data is damaged: its decoder gave up on it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_result() {
        install();
        assert_eq!(guarded::<()>(|| panic!("on purpose")), None);
        assert_eq!(guarded(|| 7), Some(7));
    }
}
