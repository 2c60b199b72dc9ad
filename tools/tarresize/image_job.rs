//! One image to process: its header, the format and size it will have, and the mapping between stored and output
//! pixels.

use image::metadata::Orientation;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::encode::{ImageMetadata, TargetFormat};
use crate::tarresize::formats::header::ImageHeader;
use crate::tarresize::geometry::{self, PixelSize, ResizePlan};
use crate::tarresize::jpeg::codec;
use crate::tarresize::options::{IccAction, ImageOptions, OrientationAction};
use crate::tarresize::pixels::area_filter::Rect;
use crate::tarresize::pixels::blur::BlurBox;
use crate::tarresize::pixels::orientation;
use crate::tarresize::pixels::resample::Filter;

/// One image to process.
pub struct ImageJob<'a> {
    pub bytes: &'a [u8],
    pub header: &'a ImageHeader,
    pub options: &'a ImageOptions,
    /// The orientation to apply to the pixels; `NoTransforms` if it is kept or ignored.
    pub orientation: Orientation,
    pub plan: ResizePlan,
    pub format: TargetFormat,
    pub boxes: &'a [BlurBox],
}

impl<'a> ImageJob<'a> {
    /// Plans the processing of an image; fails if a filter rejects it.
    pub fn new(
        bytes: &'a [u8],
        header: &'a ImageHeader,
        boxes: &'a [BlurBox],
        options: &'a ImageOptions,
    ) -> Result<Self, ImageFailure> {
        check_filters(header, options)?;
        let orientation =
            if options.orient == OrientationAction::Apply { header.orientation } else { Orientation::NoTransforms };
        let original = orientation::oriented_size(header.size, orientation);
        let plan = geometry::plan(original, options.mode, options.size, options.only_if_bigger);
        let format = options.format.unwrap_or(TargetFormat::nearest_to(header.kind));
        Ok(ImageJob { bytes, header, options, orientation, plan, format, boxes })
    }

    /// The size of the input, oriented.
    pub fn original_size(&self) -> PixelSize {
        orientation::oriented_size(self.header.size, self.orientation)
    }

    /// The filter for enlarging or shrinking, whichever applies.
    pub fn filter(&self) -> Filter {
        if self.plan.shrinks { self.options.down } else { self.options.up }
    }

    /// The factor by which the JPEG decoder shrinks the image: a power of two that leaves at least twice the target
    /// size.
    pub fn decode_shrink(&self) -> u32 {
        let dct = self.header.jpeg.as_ref().is_some_and(|jpeg| jpeg.can_scale);
        if !dct || !codec::HAS_PLANES || self.options.down == Filter::Nearest {
            return 1;
        }
        let stored = orientation::oriented_size(self.plan.scaled, self.orientation);
        let enough = |shrink: &u32| {
            self.header.size.width / shrink >= 2 * stored.width && self.header.size.height / shrink >= 2 * stored.height
        };
        [8, 4, 2].into_iter().find(enough).unwrap_or(1)
    }

    /// The rectangle of the stored picture, decoded at 1/`shrink`, that the output shows.
    pub fn source_rect(&self, shrink: u32) -> Rect {
        let scaled = orientation::oriented_size(self.plan.scaled, self.orientation);
        let shown = orientation::oriented_size(self.plan.shown(), self.orientation);
        let (left, top) = self.stored_crop();
        let step = |stored: u32, scaled: u32| f64::from(stored) / f64::from(shrink) / f64::from(scaled);
        let across = step(self.header.size.width, scaled.width);
        let down = step(self.header.size.height, scaled.height);
        Rect {
            x: f64::from(left) * across,
            y: f64::from(top) * down,
            width: f64::from(shown.width) * across,
            height: f64::from(shown.height) * down,
        }
    }

    /// Columns and rows to crop on the left and top of the stored picture. They depend on the orientation, since an odd
    /// crop takes one pixel more from one side.
    fn stored_crop(&self) -> (u32, u32) {
        let (left, top) = self.plan.crop();
        let shown = self.plan.shown();
        let right = self.plan.scaled.width - shown.width - left;
        let bottom = self.plan.scaled.height - shown.height - top;
        match self.orientation {
            Orientation::NoTransforms => (left, top),
            Orientation::FlipHorizontal => (right, top),
            Orientation::Rotate180 => (right, bottom),
            Orientation::FlipVertical => (left, bottom),
            Orientation::Rotate90FlipH => (top, left),
            Orientation::Rotate90 => (top, right),
            Orientation::Rotate270FlipH => (bottom, right),
            Orientation::Rotate270 => (bottom, left),
        }
    }

    /// The metadata of the new file.
    pub fn metadata(&self) -> ImageMetadata {
        if self.options.strip {
            return ImageMetadata::default();
        }
        let icc = self.header.icc.clone().filter(|_| self.options.icc == IccAction::Keep);
        let mut exif = self.header.exif.clone();
        if let Some(exif) = exif.as_mut().filter(|_| self.options.orient != OrientationAction::Keep) {
            let _ = Orientation::remove_from_exif_chunk(exif);
        }
        ImageMetadata { exif, icc }
    }

    /// Ignores damage that `--allow-truncated` permits.
    pub fn tolerate(&self, damage: Option<ImageFailure>) -> Result<(), ImageFailure> {
        match damage {
            Some(failure) if failure.code == ImageFailureCode::Truncated && self.options.allow_truncated => Ok(()),
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// Rejects images by size, aspect ratio and animation, before decoding.
fn check_filters(header: &ImageHeader, options: &ImageOptions) -> Result<(), ImageFailure> {
    let PixelSize { width, height } = header.size;
    let (short, long) = (width.min(height), width.max(height));
    let refuse = |code| Err(ImageFailure::new(code, format!("{width}x{height}")));
    if options.min_side.is_some_and(|min| short < min) {
        return refuse(ImageFailureCode::TooSmall);
    }
    if options.max_area.is_some_and(|max| header.size.area() > max) {
        return refuse(ImageFailureCode::TooLargeArea);
    }
    if options.max_aspect.is_some_and(|max| f64::from(long) > max * f64::from(short)) {
        return refuse(ImageFailureCode::Aspect);
    }
    if options.reject_animated && header.frames > 1 {
        return Err(ImageFailure::new(ImageFailureCode::Animated, format!("{} frames", header.frames)));
    }
    Ok(())
}
