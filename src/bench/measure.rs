//! Warm-up and timed launches: CUDA events round the timed ones, and nothing else in between. And what a launch costs
//! the host, by the wall clock.

use std::time::Instant;

use super::cuda::{Context, CudaError, Stream};
use crate::model::kernel::Launch;
use crate::model::matrix::Measure;
use crate::model::wire::HostLaunches;

/// Launches as often as `measure` says and gives the mean of the timed launches in milliseconds; none where none was
/// timed, or where the events lie too close for the driver to tell them apart.
pub(super) fn mean_ms<'c>(
    context: &'c Context,
    stream: &Stream<'c>,
    measure: Measure,
    launch: impl Fn() -> Result<(), CudaError>,
) -> Result<Option<f64>, CudaError> {
    let (start, end) = (context.event()?, context.event()?);
    for _ in 0..measure.warmup {
        launch()?;
    }
    stream.record(&start)?;
    for _ in 0..measure.timed {
        launch()?;
    }
    stream.record(&end)?;
    stream.synchronize()?;
    let total = end.since(&start)?;
    Ok((measure.timed > 0 && total > 0.0).then(|| total / f64::from(measure.timed)))
}

/// What one launch costs the host, in milliseconds: the median over the batches, each into an idle stream and timed
/// without the wait at its end; none without launches.
pub(super) fn launch_ms(
    stream: &Stream<'_>,
    launches: HostLaunches,
    launch: impl Fn() -> Result<(), CudaError>,
) -> Result<Option<f64>, CudaError> {
    let mut times = Vec::new();
    for _ in 0..launches.batches {
        stream.synchronize()?;
        let started = Instant::now();
        for _ in 0..launches.batch {
            launch()?;
        }
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    stream.synchronize()?;
    Ok(median(times).filter(|_| launches.batch > 0).map(|total| total / f64::from(launches.batch)))
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// Bytes that must move over the time, in GB/s of 1e9 bytes.
pub(super) fn gbps(launch: Launch, mean_ms: f64) -> f64 {
    launch.bytes_moved() as f64 / (mean_ms * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_lesson() {
        // Measured on an H200: 0.0170 ms are 2962 GB/s.
        assert_eq!(gbps(Launch::VECTOR_ADD, 0.017).round().to_string(), "2961");
    }

    #[test]
    fn the_median_is_not_moved_by_one_slow_batch() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(median(Vec::new()), None);
    }
}
