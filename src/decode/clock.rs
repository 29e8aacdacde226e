//! Where time comes from; tests put in a clock they control.

use std::time::Instant;

/// A clock that only moves forward.
pub trait Clock {
    /// Seconds since some fixed moment.
    fn now_s(&self) -> f64;
}

/// The system's monotonic clock.
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}
