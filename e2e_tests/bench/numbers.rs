//! Figures: percentiles, and ratios with their spread.

use std::time::Duration;

/// The value below which this share of all lies, the nearest one that was measured.
pub fn percentile(values: &[Duration], share: f64) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort();
    sorted.get(rank(sorted.len(), share)).copied().unwrap_or_default()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count of measurements is small and not negative"
)]
fn rank(count: usize, share: f64) -> usize {
    ((count.saturating_sub(1)) as f64 * share).round() as usize
}

/// The middle of the ratios of each round, and the ratios that a quarter and three quarters of the rounds lie below.
pub fn ratio(times: &[Duration], base: &[Duration]) -> (f64, f64, f64) {
    let mut ratios: Vec<f64> =
        times.iter().zip(base).map(|(one, base)| one.as_secs_f64() / base.as_secs_f64().max(1e-9)).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share| ratios.get(rank(ratios.len(), share)).copied().unwrap_or(f64::NAN);
    (at(0.5), at(0.25), at(0.75))
}

/// In milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// In mebibytes.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
