//! The size each image gets: img2dataset's modes, in integer arithmetic, so that both programs produce the same sizes.

use clap::ValueEnum;

/// How to reach the requested size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ResizeMode {
    /// Fit the larger side, then pad to the full size with white
    Border,
    /// The smaller side becomes the size
    KeepRatio,
    /// The larger side becomes the size
    KeepRatioLargest,
    /// The smaller side becomes the size; the larger one is cropped around its centre
    CenterCrop,
    /// Keep the size
    No,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelSize {
    pub width: u32,
    pub height: u32,
}

impl PixelSize {
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    pub fn area(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Width and height swapped, as after a quarter turn.
    pub fn transposed(self) -> Self {
        Self::new(self.height, self.width)
    }
}

/// How an image is resized: scaled to `scaled`, then cropped or padded to `output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizePlan {
    pub scaled: PixelSize,
    pub output: PixelSize,
    /// Whether scaling makes the image smaller; selects the filter.
    pub shrinks: bool,
}

impl ResizePlan {
    /// Whether the image keeps its size, without cropping or padding.
    pub fn is_identity(&self, original: PixelSize) -> bool {
        self.scaled == original && self.output == original
    }

    /// Columns and rows to crop on the left and top.
    pub fn crop(&self) -> (u32, u32) {
        let cut = |scaled: u32, output: u32| scaled.saturating_sub(output) / 2;
        (cut(self.scaled.width, self.output.width), cut(self.scaled.height, self.output.height))
    }

    /// Columns and rows of border on the left and top. If the padding is odd, the extra pixel goes to the right or
    /// bottom.
    pub fn pad(&self) -> (u32, u32) {
        let pad = |scaled: u32, output: u32| output.saturating_sub(scaled) / 2;
        (pad(self.scaled.width, self.output.width), pad(self.scaled.height, self.output.height))
    }

    /// The size of the image inside `output`, without its border.
    pub fn shown(&self) -> PixelSize {
        PixelSize::new(self.scaled.width.min(self.output.width), self.scaled.height.min(self.output.height))
    }
}

/// Plans the size of an image of size `original`; with `only_if_bigger`, smaller images keep their size.
pub fn plan(original: PixelSize, mode: ResizeMode, wanted: PixelSize, only_if_bigger: bool) -> ResizePlan {
    let unchanged = ResizePlan { scaled: original, output: original, shrinks: false };
    let by_width = match mode {
        ResizeMode::No => return unchanged,
        ResizeMode::KeepRatio | ResizeMode::CenterCrop => covers_by_width(original, wanted),
        ResizeMode::Border | ResizeMode::KeepRatioLargest => !covers_by_width(original, wanted),
    };
    let (side, size) = if by_width { (original.width, wanted.width) } else { (original.height, wanted.height) };
    let shrinks = side > size;
    if only_if_bigger && !shrinks {
        return unchanged;
    }
    let scaled = PixelSize::new(scale_side(original.width, size, side), scale_side(original.height, size, side));
    let output = match mode {
        ResizeMode::Border | ResizeMode::CenterCrop => wanted,
        _ => scaled,
    };
    ResizePlan { scaled, output, shrinks }
}

/// Whether the image fills the requested height once its width is scaled to the requested width.
fn covers_by_width(original: PixelSize, wanted: PixelSize) -> bool {
    u64::from(wanted.width) * u64::from(original.height) >= u64::from(wanted.height) * u64::from(original.width)
}

/// `length × size / side`, halves rounded to even, at least 1.
fn scale_side(length: u32, size: u32, side: u32) -> u32 {
    let (product, side) = (u64::from(length) * u64::from(size), u64::from(side));
    let (whole, rest) = (product / side, product % side);
    let up = rest * 2 > side || (rest * 2 == side && whole % 2 == 1);
    u32::try_from(whole + u64::from(up)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(width: u32, height: u32, mode: ResizeMode, wanted: u32) -> (u32, u32) {
        let plan = plan(PixelSize::new(width, height), mode, PixelSize::new(wanted, wanted), false);
        (plan.output.width, plan.output.height)
    }

    #[test]
    fn sizes_are_those_of_img2dataset() {
        assert_eq!(sizes(500, 300, ResizeMode::KeepRatio, 256), (427, 256));
        assert_eq!(sizes(500, 300, ResizeMode::KeepRatioLargest, 256), (256, 154));
        assert_eq!(sizes(500, 300, ResizeMode::CenterCrop, 256), (256, 256));
        assert_eq!(sizes(500, 300, ResizeMode::Border, 256), (256, 256));
        assert_eq!(sizes(300, 500, ResizeMode::KeepRatio, 256), (256, 427));
        assert_eq!(sizes(500, 300, ResizeMode::No, 256), (500, 300));
    }

    #[test]
    fn a_half_goes_to_the_even_number() {
        assert_eq!((scale_side(5, 1, 2), scale_side(7, 1, 2), scale_side(1, 1, 2)), (2, 4, 1));
        assert_eq!(scale_side(1, 1, 5_000), 1);
    }

    #[test]
    fn the_smaller_half_of_odd_padding_is_on_top() {
        let plan = plan(PixelSize::new(100, 51), ResizeMode::Border, PixelSize::new(100, 100), false);
        assert_eq!((plan.pad(), plan.crop()), ((0, 24), (0, 0)));
    }

    #[test]
    fn only_if_bigger_neither_crops_nor_pads() {
        let small = PixelSize::new(300, 200);
        for mode in [ResizeMode::Border, ResizeMode::CenterCrop, ResizeMode::KeepRatio] {
            assert!(plan(small, mode, PixelSize::new(400, 400), true).is_identity(small));
        }
        assert_eq!(plan(small, ResizeMode::Border, PixelSize::new(256, 256), true).output, PixelSize::new(256, 256));
    }

    #[test]
    fn two_sides_may_differ() {
        let wide = plan(PixelSize::new(400, 100), ResizeMode::CenterCrop, PixelSize::new(100, 50), false);
        assert_eq!((wide.scaled, wide.crop()), (PixelSize::new(200, 50), (50, 0)));
        let fit = plan(PixelSize::new(400, 100), ResizeMode::KeepRatioLargest, PixelSize::new(100, 50), false);
        assert_eq!(fit.output, PixelSize::new(100, 25));
    }
}
