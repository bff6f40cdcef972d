//! More calls than places: those that the queue holds are answered in their order, the others are told to try again,
//! and the server is as it was before.

use std::time::{Duration, Instant};

use crate::server::Server;

/// Calls that a server with one place runs, takes in or lets wait: one, one and sixteen.
const HELD: usize = 18;

const CALLS: usize = 60;

#[test]
fn a_full_queue_says_try_again_and_serves_the_others_in_their_order() {
    for pool in ["0", "2"] {
        let mut server = Server::start(&["--max-concurrent", "1", "--pool-size", pool]);
        server.run("pass");
        let scripts: Vec<String> =
            (0..CALLS).map(|number| format!("import time\ntime.sleep(0.05)\nprint({number})")).collect();
        let answers = server.run_together(&scripts);
        let (busy, answered): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(_, answer)| answer.contains("try again"));
        // A place may have become free while the calls were being read.
        assert!(answered.len() >= HELD && answered.len() < CALLS, "{} were answered", answered.len());
        assert_eq!(busy.len() + answered.len(), CALLS);
        let order: Vec<usize> = answered.iter().map(|(number, _)| *number).collect();
        assert!(order.is_sorted(), "{order:?}");
        for (number, printed) in answered {
            assert_eq!(printed, format!("{number}\n"));
        }
        assert_eq!(server.run("print('as before')").stdout, "as before\n");
    }
}

#[test]
fn nobody_waits_longer_than_the_queue_is_long() {
    let mut server = Server::start(&["--max-concurrent", "2", "--pool-size", "2"]);
    server.run("pass");
    let one = {
        let started = Instant::now();
        server.run("pass");
        started.elapsed()
    };
    let started = Instant::now();
    let answers = server.run_together(&vec!["print('x')".to_owned(); 32]);
    assert!(answers.iter().all(|(_, printed)| printed == "x\n"), "{answers:?}");
    // Each takes its turn; generous, for machines with other work.
    let bound = (one * 32 * 10).max(Duration::from_secs(10));
    assert!(started.elapsed() < bound, "{:?} for 32, {one:?} for one", started.elapsed());
}
