//! How much memory an image takes on its way, known from its header: every buffer that is alive at the same time, in
//! the decoder, here and in the encoder. The figures err on the large side; a test holds real runs against them.

use image::ImageFormat;
use tarpipe::value::size;

use crate::encode::Format;
use crate::failure::{Code, Failure};
use crate::head::Kind;
use crate::job::Job;
use crate::jpeg::{self, Subsampling, codec};
use crate::options::Icc;
use crate::orient;
use crate::resample::Filter;
use crate::size::Size;

/// Channels of the widest pixels between decoder and encoder.
const WIDEST: u64 = 4;

/// The bytes that an image needs at its peak, its result included.
fn needed(job: &Job) -> u64 {
    let metadata = job.head.exif.as_ref().map_or(0, Vec::len) + job.head.icc.as_ref().map_or(0, Vec::len);
    // Metadata is copied into the result; a JPEG with garbage in its head is copied without it.
    let copies = job.bytes.len() as u64 + 2 * metadata as u64;
    [decoding(job), scaling(job), encoding(job)].into_iter().fold(0, u64::max) + copies
}

/// Fails an image that needs more than `limit` bytes.
pub fn check(job: &Job, limit: u64) -> Result<(), Failure> {
    let needed = needed(job);
    if needed <= limit {
        return Ok(());
    }
    let Size { width, height } = job.head.size;
    let (needed, limit) = (size::show(needed), size::show(limit));
    let detail = format!("{width}x{height} pixels need {needed} of memory, and --memory is {limit}");
    Err(Failure::new(Code::Memory, detail + ": raise it, or leave out large images with --max-area"))
}

/// The bytes that the images of a sample need, one after the other, while the results wait for the last.
pub fn of_all<'a>(jobs: impl Iterator<Item = &'a Job<'a>>) -> u64 {
    let (largest, results) =
        jobs.fold((0, 0), |(largest, results), job| (needed(job).max(largest), results + result(job)));
    largest + results
}

/// The most bytes that the new file can have, or nearly so: encoders make noise hardly larger than its pixels.
fn result(job: &Job) -> u64 {
    job.plan.output.area() * WIDEST
}

/// Pixels as they are decoded, and their channels.
fn decoded(job: &Job) -> (Size, u64) {
    let Size { width, height } = job.head.size;
    let shrink = if job.boxes.is_empty() { job.shrink() } else { 1 };
    let size = Size::new(width.div_ceil(shrink), height.div_ceil(shrink));
    let channels = job.head.jpeg.as_ref().map_or(WIDEST, |markers| jpeg::layout(markers.color).channels() as u64);
    (size, channels)
}

fn decoding(job: &Job) -> u64 {
    let (stored, (size, channels)) = (job.head.size.area(), decoded(job));
    let picture = size.area() * channels;
    let Some(markers) = &job.head.jpeg else {
        let raw = stored * job.head.pixel_bytes;
        return raw + picture + decoder(job.head.kind, raw, stored);
    };
    // Scans that do not hold all of a pixel are gathered as coefficients of 16 bits, before any scaling.
    let coefficients = if markers.has_many_scans { stored * channels * 2 } else { 0 };
    let copy = if codec::HAS_PLANES { 0 } else { picture };
    coefficients + picture + copy
}

/// What decoders hold besides the pixels that they hand over.
fn decoder(kind: Kind, raw: u64, pixels: u64) -> u64 {
    match kind {
        Kind::Other(ImageFormat::Tiff) => 2 * raw,
        Kind::Other(ImageFormat::Png) => 0,
        Kind::Other(_) => raw,
        // libwebp: all pixels as ARGB, and its copy of the result; of an animation the canvas and a frame as well.
        Kind::Webp => 3 * WIDEST * pixels,
        Kind::Jpeg => 0,
    }
}

fn scaling(job: &Job) -> u64 {
    let (from, channels) = decoded(job);
    let picture = from.area() * channels;
    // A copy without alpha; two of a blurred box, which may be all of the picture.
    let copies = if job.boxes.is_empty() { picture } else { 2 * picture };
    let shown = orient::oriented_size(job.plan.shown(), job.orientation);
    let area = |width: u32, height: u32| u64::from(width) * u64::from(height) * channels;
    // All filters but one scale one axis after the other.
    let by_axes = job.filter() != Filter::Area || !job.plan.down;
    let half_scaled = if by_axes { area(shown.width, from.height).max(area(from.width, shown.height)) } else { 0 };
    picture + copies.max(half_scaled + shown.area() * channels)
}

fn encoding(job: &Job) -> u64 {
    let (pixels, quality) = (job.plan.output.area(), &job.options.quality);
    let picture = pixels * WIDEST;
    let converted = if job.options.icc == Icc::Srgb { picture } else { 0 };
    let encoder = match job.format {
        // The file, twice while it is copied; all coefficients where scans are made of them.
        Format::Jpg if quality.jpeg.progressive && quality.jpeg.subsampling == Subsampling::Full => 4 * picture,
        Format::Jpg if quality.jpeg.progressive => 3 * picture,
        Format::Jpg => 2 * picture,
        // Compressed data, and the file as it grows by doubling.
        Format::Png => 3 * picture,
        // ARGB, YUV and what is known of each block.
        Format::Webp => 4 * picture,
    };
    picture + converted.max(encoder)
}
