//! Ctrl-C and SIGTERM: the first ends the run after the round under way, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::ExitCode;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Starts listening. Without a handler (where the system refuses one) signals end the program at once.
pub(super) fn listen() {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(ExitCode::Interrupted as i32);
        }
    };
    let _ = ctrlc::set_handler(handler);
}

/// Whether the user asked to end.
pub(super) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
