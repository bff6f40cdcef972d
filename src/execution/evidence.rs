//! What a failed script's last words tell about a limit. The sandbox looks at its limits from time to time, and a script
//! that is refused space and ends at once can be gone before the next look.

use crate::sandbox::spec::Limits;
use crate::sandbox::{LimitHit, Tier};

/// The limit that an exception's last line tells of; `frame` is where it was raised.
fn named(last: &str, frame: &str, limits: &Limits) -> Option<LimitHit> {
    let starts = |start: &str| last.starts_with(start);
    if starts("OSError: [Errno 28]") {
        Some(LimitHit::Disk(limits.disk))
    } else if starts("OSError: [Errno 24]") {
        Some(LimitHit::OpenFiles(limits.open_files))
    } else if starts("MemoryError") || starts("numpy._core._exceptions._ArrayMemoryError") {
        Some(LimitHit::Memory(limits.memory))
    } else if starts("BlockingIOError: [Errno 11]") && frame.contains("fork") {
        // The same error from a socket tells of no limit.
        Some(LimitHit::Processes(limits.processes))
    } else {
        None
    }
}

/// The limit that the uncaught exception of a failed script names.
pub fn limit_in(errors: &str, limits: &Limits, tier: Tier) -> Option<LimitHit> {
    let last = errors.lines().rfind(|line| !line.trim().is_empty())?;
    let frame = errors.rsplit("\n  File ").next().unwrap_or_default();
    let hit = named(last, frame, limits)?;
    // Without a file system of the sandbox's own it is the machine's disk that may be full.
    let own_disk = matches!(tier, Tier::Full | Tier::Docker);
    (own_disk || !matches!(hit, LimitHit::Disk(_))).then_some(hit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exception_that_nobody_caught_counts() {
        let limits = Limits::default();
        let limit_in = |errors: &str, limits| super::limit_in(errors, limits, Tier::Full);
        let traceback = "Traceback (most recent call last):\n  File \"x\", line 1\nOSError: [Errno 28] No space left on device\n";
        assert_eq!(limit_in(traceback, &limits), Some(LimitHit::Disk(limits.disk)));
        assert_eq!(
            limit_in("OSError: [Errno 28] No space left on device: 'a'\n\n", &limits),
            Some(LimitHit::Disk(limits.disk))
        );
        assert_eq!(limit_in("it said [Errno 28]\n", &limits), None);
        assert_eq!(limit_in(&format!("{traceback}ValueError: next\n"), &limits), None);
        assert_eq!(limit_in("", &limits), None);
        let descriptors = limit_in("OSError: [Errno 24] Too many open files: 'a'\n", &limits);
        assert_eq!(descriptors, Some(LimitHit::OpenFiles(limits.open_files)));
        assert_eq!(limit_in("MemoryError\n", &limits), Some(LimitHit::Memory(limits.memory)));
        let refused = |line: &str| {
            let text = format!(
                "Traceback (most recent call last):\n  File \"fork.py\", line 1, in <module>\n  File \"x\", line 2\n    {line}\n\
                 BlockingIOError: [Errno 11] Resource temporarily unavailable\n"
            );
            limit_in(&text, &limits)
        };
        assert_eq!(refused("self.pid = _fork_exec("), Some(LimitHit::Processes(limits.processes)));
        assert_eq!(refused("connection.recv(1)"), None);
    }

    #[test]
    fn a_full_disk_of_the_machine_is_no_limit_of_the_run() {
        let limits = Limits::default();
        let named = |errors: &str| limit_in(errors, &limits, Tier::Confined);
        assert_eq!(named("OSError: [Errno 28] No space left on device\n"), None);
        assert_eq!(
            named("OSError: [Errno 24] Too many open files\n"),
            Some(LimitHit::OpenFiles(limits.open_files))
        );
    }
}
