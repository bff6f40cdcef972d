//! What a failed script's last words tell about a limit. The sandbox looks at its limits from time to time, and a script
//! that is refused space and ends at once can be gone before the next look.

use crate::sandbox::LimitHit;
use crate::sandbox::spec::Limits;

/// The limit that the uncaught exception of a failed script names, where all that it could fill up is the sandbox's own.
pub fn limit_in(errors: &str, limits: &Limits) -> Option<LimitHit> {
    let last = errors.lines().rfind(|line| !line.trim().is_empty())?;
    last.starts_with("OSError: [Errno 28]").then_some(LimitHit::Disk(limits.disk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exception_that_nobody_caught_counts() {
        let limits = Limits::default();
        let traceback = "Traceback (most recent call last):\n  File \"x\", line 1\nOSError: [Errno 28] No space left on device\n";
        assert_eq!(limit_in(traceback, &limits), Some(LimitHit::Disk(limits.disk)));
        assert_eq!(
            limit_in("OSError: [Errno 28] No space left on device: 'a'\n\n", &limits),
            Some(LimitHit::Disk(limits.disk))
        );
        assert_eq!(limit_in("it said [Errno 28]\n", &limits), None);
        assert_eq!(limit_in(&format!("{traceback}ValueError: next\n"), &limits), None);
        assert_eq!(limit_in("", &limits), None);
    }
}
