//! A decoder that panics on hostile data costs its item, not the run.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics under guard from being told as bugs of ours; all others are told as before.
/// Called once, before any work under guard.
pub fn install() {
    let tell = take_hook();
    set_hook(Box::new(move |panic| {
        if !GUARDED.get() {
            tell(panic);
        }
    }));
}

/// Runs work on one item; None if it panics. What the work leaves half done must be overwritten
/// by the next item, as buffers are.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    result.ok()
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
