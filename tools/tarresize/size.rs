//! Which size an image gets: img2dataset's modes, in whole numbers, so that both make the same sizes.

use clap::ValueEnum;

/// How the size that was asked for is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Mode {
    /// Fit the larger side and pad to the whole size with white
    Border,
    /// The smaller side becomes the size
    KeepRatio,
    /// The larger side becomes the size
    KeepRatioLargest,
    /// The smaller side becomes the size, the middle of the larger is kept
    CenterCrop,
    /// Keep the size
    No,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

impl Size {
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    pub fn area(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Width and height exchanged, as a quarter turn does.
    pub fn turned(self) -> Self {
        Self::new(self.height, self.width)
    }
}

/// What happens to an image of a given size: scaled, then cropped to or padded to `output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub scaled: Size,
    pub output: Size,
    /// Whether scaling makes it smaller: chooses the filter.
    pub down: bool,
}

impl Plan {
    /// Whether pixels stay as they are.
    pub fn is_identity(&self, original: Size) -> bool {
        self.scaled == original && self.output == original
    }

    /// Columns and rows cut off on the left and top.
    pub fn crop(&self) -> (u32, u32) {
        let cut = |scaled: u32, output: u32| scaled.saturating_sub(output) / 2;
        (cut(self.scaled.width, self.output.width), cut(self.scaled.height, self.output.height))
    }

    /// Columns and rows of border on the left and top: the smaller half of an odd number.
    pub fn pad(&self) -> (u32, u32) {
        let pad = |scaled: u32, output: u32| output.saturating_sub(scaled) / 2;
        (pad(self.scaled.width, self.output.width), pad(self.scaled.height, self.output.height))
    }

    /// The part of `output` that shows the image.
    pub fn shown(&self) -> Size {
        Size::new(self.scaled.width.min(self.output.width), self.scaled.height.min(self.output.height))
    }
}

/// The plan for an image of size `original`; `only_if_bigger` leaves smaller ones alone.
pub fn plan(original: Size, mode: Mode, wanted: Size, only_if_bigger: bool) -> Plan {
    let unchanged = Plan { scaled: original, output: original, down: false };
    let by_width = match mode {
        Mode::No => return unchanged,
        Mode::KeepRatio | Mode::CenterCrop => covers_by_width(original, wanted),
        Mode::Border | Mode::KeepRatioLargest => !covers_by_width(original, wanted),
    };
    let (side, size) = if by_width { (original.width, wanted.width) } else { (original.height, wanted.height) };
    let down = side > size;
    if only_if_bigger && !down {
        return unchanged;
    }
    let scaled = Size::new(scale(original.width, size, side), scale(original.height, size, side));
    let output = match mode {
        Mode::Border | Mode::CenterCrop => wanted,
        _ => scaled,
    };
    Plan { scaled, output, down }
}

/// Whether scaling the width to its wanted value also fills the height.
fn covers_by_width(original: Size, wanted: Size) -> bool {
    u64::from(wanted.width) * u64::from(original.height) >= u64::from(wanted.height) * u64::from(original.width)
}

/// `length × size / side`, a half rounded to even, at least 1.
fn scale(length: u32, size: u32, side: u32) -> u32 {
    let (product, side) = (u64::from(length) * u64::from(size), u64::from(side));
    let (whole, rest) = (product / side, product % side);
    let up = rest * 2 > side || (rest * 2 == side && whole % 2 == 1);
    u32::try_from(whole + u64::from(up)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(width: u32, height: u32, mode: Mode, wanted: u32) -> (u32, u32) {
        let plan = plan(Size::new(width, height), mode, Size::new(wanted, wanted), false);
        (plan.output.width, plan.output.height)
    }

    #[test]
    fn sizes_are_those_of_img2dataset() {
        assert_eq!(sizes(500, 300, Mode::KeepRatio, 256), (427, 256));
        assert_eq!(sizes(500, 300, Mode::KeepRatioLargest, 256), (256, 154));
        assert_eq!(sizes(500, 300, Mode::CenterCrop, 256), (256, 256));
        assert_eq!(sizes(500, 300, Mode::Border, 256), (256, 256));
        assert_eq!(sizes(300, 500, Mode::KeepRatio, 256), (256, 427));
        assert_eq!(sizes(500, 300, Mode::No, 256), (500, 300));
    }

    #[test]
    fn a_half_goes_to_the_even_number() {
        assert_eq!((scale(5, 1, 2), scale(7, 1, 2), scale(1, 1, 2)), (2, 4, 1));
        assert_eq!(scale(1, 1, 5_000), 1);
    }

    #[test]
    fn the_smaller_half_of_odd_padding_is_on_top() {
        let plan = plan(Size::new(100, 51), Mode::Border, Size::new(100, 100), false);
        assert_eq!((plan.pad(), plan.crop()), ((0, 24), (0, 0)));
    }

    #[test]
    fn only_if_bigger_neither_crops_nor_pads() {
        let small = Size::new(300, 200);
        for mode in [Mode::Border, Mode::CenterCrop, Mode::KeepRatio] {
            assert!(plan(small, mode, Size::new(400, 400), true).is_identity(small));
        }
        assert_eq!(plan(small, Mode::Border, Size::new(256, 256), true).output, Size::new(256, 256));
    }

    #[test]
    fn two_sides_may_differ() {
        let wide = plan(Size::new(400, 100), Mode::CenterCrop, Size::new(100, 50), false);
        assert_eq!((wide.scaled, wide.crop()), (Size::new(200, 50), (50, 0)));
        let fit = plan(Size::new(400, 100), Mode::KeepRatioLargest, Size::new(100, 50), false);
        assert_eq!(fit.output, Size::new(100, 25));
    }
}
