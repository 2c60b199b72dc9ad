//! A decoder that panics on hostile data costs its image, not the run.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use crate::failure::Failure;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics under guard from being told as bugs of ours; all others are told as before.
pub fn install() {
    let tell = take_hook();
    set_hook(Box::new(move |panic| {
        if !GUARDED.get() {
            tell(panic);
        }
    }));
}

/// Runs work on one image; a panic in it becomes a failure. What the work leaves half done must be
/// overwritten by the next image, as buffers are.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    result.unwrap_or_else(|_| Err(Failure::decode("the decoder gave up on it")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    #[test]
    fn a_panic_is_a_failure_to_decode() {
        install();
        let failure = guarded::<()>(|| panic!("on purpose")).unwrap_err();
        assert_eq!(failure.code, Code::Decode);
        assert_eq!(guarded(|| Ok(7)), Ok(7));
    }
}
