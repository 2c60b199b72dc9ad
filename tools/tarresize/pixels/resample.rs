//! Resizes pixels: our own area filter for shrinking, fast_image_resize for all other filters.

use clap::ValueEnum;
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{Filter as CustomFilter, FilterType, MulDiv, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::tarresize::failure::ImageFailure;
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::pixels::area_filter::{AreaShrinker, Rect};
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// The values of `--up` and `--down`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filter {
    Nearest,
    Linear,
    Cubic,
    /// The mean of the covered area; linear when enlarging
    Area,
    /// Three lobes when shrinking; four when enlarging as in OpenCV
    Lanczos,
}

/// The resizing algorithms and their buffers, for one thread.
#[derive(Default)]
pub struct Resampler {
    area: AreaShrinker,
    resizer: Resizer,
    alpha: MulDiv,
}

impl Resampler {
    /// Frees buffers larger than `max_kept` bytes.
    pub fn release(&mut self, max_kept: usize) {
        if self.resizer.size_of_internal_buffers() > max_kept {
            self.resizer.reset_internal_buffers();
        }
    }

    /// Resizes the rectangle `rect` of a picture.
    pub fn resize(
        &mut self,
        mut picture: Picture,
        rect: Rect,
        size: PixelSize,
        filter: Filter,
    ) -> Result<Picture, ImageFailure> {
        let layout = picture.layout;
        let mut out = Picture::new(size, layout);
        let whole = rect.width == f64::from(picture.size.width) && rect.height == f64::from(picture.size.height);
        if whole && size == picture.size {
            return Ok(picture);
        }
        if layout.has_alpha() {
            self.premultiply(&mut picture)?;
        }
        self.resize_plane(&picture.data, picture.size, layout, rect, &mut out.data, size, filter)?;
        if layout.has_alpha() {
            self.unmultiply(&mut out)?;
        }
        Ok(out)
    }

    /// Resizes the rectangle `rect` of rows of pixels, each channel separately.
    #[expect(
        clippy::too_many_arguments,
        reason = "two pictures, a rectangle and a filter: a struct would only rename them"
    )]
    pub fn resize_plane(
        &mut self,
        source: &[u8],
        source_size: PixelSize,
        layout: PixelLayout,
        rect: Rect,
        out: &mut [u8],
        size: PixelSize,
        filter: Filter,
    ) -> Result<(), ImageFailure> {
        let shrinks = rect.width >= f64::from(size.width) && rect.height >= f64::from(size.height);
        if filter == Filter::Area && shrinks {
            self.shrink(source, source_size, layout, rect, out, size);
            return Ok(());
        }
        if filter == Filter::Lanczos && rect.width < f64::from(size.width) && rect.height < f64::from(size.height) {
            return self.enlarge_lanczos(source, source_size, layout, rect, out, size);
        }
        self.convolve(source, source_size, layout, rect, out, size, algorithm(filter))
    }

    /// Enlarges as OpenCV does: a window of four lobes, and beyond the edge the last pixel again.
    fn enlarge_lanczos(
        &mut self,
        source: &[u8],
        from: PixelSize,
        layout: PixelLayout,
        rect: Rect,
        out: &mut [u8],
        size: PixelSize,
    ) -> Result<(), ImageFailure> {
        let window = CustomFilter::new("Lanczos4", lanczos_4, LOBES.into()).map_err(ImageFailure::decode)?;
        let margin = f64::from(LOBES);
        let rect = Rect { x: rect.x + margin, y: rect.y + margin, ..rect };
        let (padded, padded_size) = with_repeated_edges(source, from, layout.channels(), LOBES);
        let alg = ResizeAlg::Convolution(FilterType::Custom(window));
        self.convolve(&padded, padded_size, layout, rect, out, size, alg)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "two pictures, a rectangle and an algorithm: a struct would only rename them"
    )]
    fn convolve(
        &mut self,
        source: &[u8],
        source_size: PixelSize,
        layout: PixelLayout,
        rect: Rect,
        out: &mut [u8],
        size: PixelSize,
        alg: ResizeAlg,
    ) -> Result<(), ImageFailure> {
        let source = ImageRef::new(source_size.width, source_size.height, source, pixel_type(layout))
            .map_err(ImageFailure::decode)?;
        let mut out =
            Image::from_slice_u8(size.width, size.height, out, pixel_type(layout)).map_err(ImageFailure::decode)?;
        let crop = clip_to(rect, source_size);
        let options =
            ResizeOptions::new().resize_alg(alg).crop(crop.x, crop.y, crop.width, crop.height).use_alpha(false);
        self.resizer.resize(&source, &mut out, Some(&options)).map_err(ImageFailure::decode)
    }

    fn shrink(
        &mut self,
        source: &[u8],
        from: PixelSize,
        layout: PixelLayout,
        rect: Rect,
        out: &mut [u8],
        to: PixelSize,
    ) {
        let from = (from.width as usize, from.height as usize);
        let to = (to.width as usize, to.height as usize);
        match layout.channels() {
            1 => self.area.shrink::<1>(source, from, rect, out, to),
            2 => self.area.shrink::<2>(source, from, rect, out, to),
            3 => self.area.shrink::<3>(source, from, rect, out, to),
            _ => self.area.shrink::<4>(source, from, rect, out, to),
        }
    }

    fn premultiply(&mut self, picture: &mut Picture) -> Result<(), ImageFailure> {
        let mut image = as_image(picture)?;
        self.alpha.multiply_alpha_inplace(&mut image).map_err(ImageFailure::decode)
    }

    fn unmultiply(&mut self, picture: &mut Picture) -> Result<(), ImageFailure> {
        let mut image = as_image(picture)?;
        self.alpha.divide_alpha_inplace(&mut image).map_err(ImageFailure::decode)
    }
}

fn as_image(picture: &mut Picture) -> Result<Image<'_>, ImageFailure> {
    let kind = pixel_type(picture.layout);
    Image::from_slice_u8(picture.size.width, picture.size.height, &mut picture.data, kind).map_err(ImageFailure::decode)
}

fn pixel_type(layout: PixelLayout) -> PixelType {
    match layout.channels() {
        1 => PixelType::U8,
        2 => PixelType::U8x2,
        3 => PixelType::U8x3,
        _ => PixelType::U8x4,
    }
}

fn algorithm(filter: Filter) -> ResizeAlg {
    match filter {
        Filter::Nearest => ResizeAlg::Nearest,
        Filter::Linear | Filter::Area => ResizeAlg::Convolution(FilterType::Bilinear),
        Filter::Cubic => ResizeAlg::Convolution(FilterType::CatmullRom),
        Filter::Lanczos => ResizeAlg::Convolution(FilterType::Lanczos3),
    }
}

/// Lobes of the window for enlarging.
const LOBES: u32 = 4;

/// sinc(x) under a window of four lobes.
fn lanczos_4(x: f64) -> f64 {
    let lobes = f64::from(LOBES);
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { x.sin() / x };
    if x.abs() < lobes { sinc(x * std::f64::consts::PI) * sinc(x * std::f64::consts::PI / lobes) } else { 0.0 }
}

/// The picture with `margin` more pixels on each side, which repeat its edge.
fn with_repeated_edges(source: &[u8], size: PixelSize, channels: usize, margin: u32) -> (Vec<u8>, PixelSize) {
    let padded = PixelSize::new(size.width + 2 * margin, size.height + 2 * margin);
    let (stride, margin) = (size.width as usize * channels, margin as usize);
    let mut data = Vec::with_capacity(padded.area() as usize * channels);
    for y in 0..padded.height as usize {
        let row = &source[y.saturating_sub(margin).min(size.height as usize - 1) * stride..][..stride];
        (0..margin).for_each(|_| data.extend_from_slice(&row[..channels]));
        data.extend_from_slice(row);
        (0..margin).for_each(|_| data.extend_from_slice(&row[stride - channels..]));
    }
    (data, padded)
}

/// Clips the rectangle to the picture: the resizer rejects one that extends beyond it.
fn clip_to(rect: Rect, size: PixelSize) -> Rect {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let (x, y) = (rect.x.clamp(0.0, width - 1.0), rect.y.clamp(0.0, height - 1.0));
    Rect { x, y, width: rect.width.min(width - x), height: rect.height.min(height - y) }
}
