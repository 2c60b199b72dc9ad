//! One image on its way: what it is, what it shall become, and the geometry between the two.

use image::metadata::Orientation;

use crate::area::Rect;
use crate::blur::Box;
use crate::encode::{Format, Metadata};
use crate::failure::{Code, Failure};
use crate::head::Head;
use crate::jpeg::codec;
use crate::options::{Icc, Options, Orient};
use crate::orient;
use crate::resample::Filter;
use crate::size::{self, Plan, Size};

/// One image on its way: what it is and what it shall become.
pub struct Job<'a> {
    pub bytes: &'a [u8],
    pub head: &'a Head,
    pub options: &'a Options,
    /// Applied to pixels; none where it is kept or ignored.
    pub orientation: Orientation,
    pub plan: Plan,
    pub format: Format,
    pub boxes: &'a [Box],
}

impl<'a> Job<'a> {
    /// Plans what is done with an image; fails where the filters leave it out.
    pub fn new(bytes: &'a [u8], head: &'a Head, boxes: &'a [Box], options: &'a Options) -> Result<Self, Failure> {
        check(head, options)?;
        let orientation = if options.orient == Orient::Apply { head.orientation } else { Orientation::NoTransforms };
        let original = orient::oriented_size(head.size, orientation);
        let plan = size::plan(original, options.mode, options.size, options.only_if_bigger);
        let format = options.format.unwrap_or(Format::keeping(head.kind));
        Ok(Job { bytes, head, options, orientation, plan, format, boxes })
    }

    /// The size before, as it is seen.
    pub fn original(&self) -> Size {
        orient::oriented_size(self.head.size, self.orientation)
    }

    /// The filter for the way it goes.
    pub fn filter(&self) -> Filter {
        if self.plan.down { self.options.down } else { self.options.up }
    }

    /// How much a JPEG is scaled while it is decoded: a power of two that leaves at least twice the target.
    pub fn shrink(&self) -> u32 {
        let dct = self.head.jpeg.as_ref().is_some_and(|jpeg| jpeg.is_baseline_dct);
        if !dct || !codec::HAS_PLANES || self.options.down == Filter::Nearest {
            return 1;
        }
        let stored = orient::oriented_size(self.plan.scaled, self.orientation);
        let enough = |shrink: &u32| {
            self.head.size.width / shrink >= 2 * stored.width && self.head.size.height / shrink >= 2 * stored.height
        };
        [8, 4, 2].into_iter().find(enough).unwrap_or(1)
    }

    /// The part of the stored picture, decoded at 1/`shrink`, that the output shows.
    pub fn rect(&self, shrink: u32) -> Rect {
        let scaled = orient::oriented_size(self.plan.scaled, self.orientation);
        let shown = orient::oriented_size(self.plan.shown(), self.orientation);
        let (left, top) = self.stored_crop();
        let step = |stored: u32, scaled: u32| f64::from(stored) / f64::from(shrink) / f64::from(scaled);
        let across = step(self.head.size.width, scaled.width);
        let down = step(self.head.size.height, scaled.height);
        Rect {
            x: f64::from(left) * across,
            y: f64::from(top) * down,
            width: f64::from(shown.width) * across,
            height: f64::from(shown.height) * down,
        }
    }

    /// What is cut off on the left and top of the stored picture: with an odd number to cut, the sides differ.
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

    /// What the new file keeps beside its pixels.
    pub fn metadata(&self) -> Metadata {
        if self.options.strip {
            return Metadata::default();
        }
        let icc = self.head.icc.clone().filter(|_| self.options.icc == Icc::Keep);
        let mut exif = self.head.exif.clone();
        if let Some(exif) = exif.as_mut().filter(|_| self.options.orient != Orient::Keep) {
            let _ = Orientation::remove_from_exif_chunk(exif);
        }
        Metadata { exif, icc }
    }

    /// Passes over damage that was allowed.
    pub fn tolerate(&self, damage: Option<Failure>) -> Result<(), Failure> {
        match damage {
            Some(failure) if failure.code == Code::Truncated && self.options.allow_truncated => Ok(()),
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// Refuses what the filters on the original size leave out.
fn check(head: &Head, options: &Options) -> Result<(), Failure> {
    let Size { width, height } = head.size;
    let (short, long) = (width.min(height), width.max(height));
    let refuse = |code| Err(Failure::new(code, format!("{width}x{height}")));
    if options.min_side.is_some_and(|min| short < min) {
        return refuse(Code::TooSmall);
    }
    if options.max_area.is_some_and(|max| head.size.area() > max) {
        return refuse(Code::TooLargeArea);
    }
    if options.max_aspect.is_some_and(|max| f64::from(long) > max * f64::from(short)) {
        return refuse(Code::Aspect);
    }
    if options.reject_animated && head.frames > 1 {
        return Err(Failure::new(Code::Animated, format!("{} frames", head.frames)));
    }
    Ok(())
}
