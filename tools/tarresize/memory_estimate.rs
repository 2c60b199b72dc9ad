//! Estimates the peak memory of an image from its header: every buffer that is alive at the same time in the decoder,
//! in the pipeline and in the encoder. The estimates err on the high side; a test compares them with real runs.

use tarpipe::value::size;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::encode::TargetFormat;
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::image_job::ImageJob;
use crate::tarresize::jpeg::{self, Subsampling, codec};
use crate::tarresize::options::IccAction;
use crate::tarresize::pixels::orientation;
use crate::tarresize::pixels::resample::Filter;

/// The most channels a pixel has between decoder and encoder.
const MAX_CHANNELS: u64 = 4;

/// The peak memory of one image, including its result.
fn needed_bytes(job: &ImageJob) -> u64 {
    let metadata = job.header.exif.as_ref().map_or(0, Vec::len) + job.header.icc.as_ref().map_or(0, Vec::len);
    // Metadata is copied into the result; a JPEG with garbage in its header is copied once to remove it.
    let copies = job.bytes.len() as u64 + 2 * metadata as u64;
    [decoding_bytes(job), scaling_bytes(job), encoding_bytes(job)].into_iter().fold(0, u64::max) + copies
}

/// Fails an image that needs more than `limit` bytes.
pub fn check(job: &ImageJob, limit: u64) -> Result<(), ImageFailure> {
    let needed = needed_bytes(job);
    if needed <= limit {
        return Ok(());
    }
    let PixelSize { width, height } = job.header.size;
    let (needed, limit) = (size::show(needed), size::show(limit));
    let detail = format!("{width}x{height} pixels need {needed} of memory, but --memory is {limit}");
    Err(ImageFailure::new(ImageFailureCode::Memory, detail + "; raise --memory, or skip large images with --max-area"))
}

/// The memory for all images of a sample: they are processed one by one, and all results wait for the last.
pub fn for_sample<'a>(jobs: impl Iterator<Item = &'a ImageJob<'a>>) -> u64 {
    let (largest, results) =
        jobs.fold((0, 0), |(largest, results), job| (needed_bytes(job).max(largest), results + result_bytes(job)));
    largest + results
}

/// An upper bound for the new file: encoders make even noise hardly larger than its pixels.
fn result_bytes(job: &ImageJob) -> u64 {
    job.plan.output.area() * MAX_CHANNELS
}

/// The size of the decoded picture, and its channels.
fn decoded_size(job: &ImageJob) -> (PixelSize, u64) {
    let PixelSize { width, height } = job.header.size;
    let shrink = if job.boxes.is_empty() { job.decode_shrink() } else { 1 };
    let size = PixelSize::new(width.div_ceil(shrink), height.div_ceil(shrink));
    let channels =
        job.header.jpeg.as_ref().map_or(MAX_CHANNELS, |markers| jpeg::pixel_layout(markers.color).channels() as u64);
    (size, channels)
}

fn decoding_bytes(job: &ImageJob) -> u64 {
    let (stored, (size, channels)) = (job.header.size.area(), decoded_size(job));
    let picture = size.area() * channels;
    let Some(markers) = &job.header.jpeg else {
        return picture + job.header.decoder_bytes;
    };
    // Progressive and multi-scan JPEGs are collected as 16-bit coefficients before any scaling.
    let coefficients = if markers.has_many_scans { stored * channels * 2 } else { 0 };
    let copy = if codec::HAS_PLANES { 0 } else { picture };
    coefficients + picture + copy
}

fn scaling_bytes(job: &ImageJob) -> u64 {
    let (from, channels) = decoded_size(job);
    let picture = from.area() * channels;
    // One copy without alpha, or two copies of a blurred box, which may cover the whole picture.
    let copies = if job.boxes.is_empty() { picture } else { 2 * picture };
    let shown = orientation::oriented_size(job.plan.shown(), job.orientation);
    let area = |width: u32, height: u32| u64::from(width) * u64::from(height) * channels;
    // All filters except area scale one axis after the other.
    let by_axes = job.filter() != Filter::Area || !job.plan.shrinks;
    let half_scaled = if by_axes { area(shown.width, from.height).max(area(from.width, shown.height)) } else { 0 };
    // Enlarging with Lanczos repeats the edges in a copy.
    let repeated = if by_axes && !job.plan.shrinks { area(from.width + 8, from.height + 8) } else { 0 };
    picture + copies.max(half_scaled + repeated + shown.area() * channels)
}

fn encoding_bytes(job: &ImageJob) -> u64 {
    let (pixels, quality) = (job.plan.output.area(), &job.options.quality);
    let picture = pixels * MAX_CHANNELS;
    let converted = if job.options.icc == IccAction::Srgb { picture } else { 0 };
    let encoder = match job.format {
        // The file, twice while it is copied; progressive files also need all coefficients.
        TargetFormat::Jpg if quality.jpeg.progressive && quality.jpeg.subsampling == Subsampling::Full => 4 * picture,
        TargetFormat::Jpg if quality.jpeg.progressive => 3 * picture,
        TargetFormat::Jpg => 2 * picture,
        // The compressed data, and the file while its buffer grows by doubling.
        TargetFormat::Png => 3 * picture,
        // ARGB, YUV and the encoder's data for each block.
        TargetFormat::Webp => 4 * picture,
    };
    picture + converted.max(encoder)
}
