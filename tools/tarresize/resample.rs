//! Scaling pixels: our area filter for shrinking, fast_image_resize for every other.

use clap::ValueEnum;
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, MulDiv, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::area::{Area, Rect};
use crate::failure::Failure;
use crate::picture::{Layout, Picture};
use crate::size::Size;

/// How new pixels come from old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filter {
    Nearest,
    Linear,
    Cubic,
    /// The mean of the surface covered; where pixels grow, linear
    Area,
    Lanczos,
}

/// The scaling engines and their buffers, for one thread.
#[derive(Default)]
pub struct Resampler {
    area: Area,
    resizer: Resizer,
    alpha: MulDiv,
}

impl Resampler {
    /// Gives buffers back that have grown beyond `keep` bytes.
    pub fn release(&mut self, keep: usize) {
        if self.resizer.size_of_internal_buffers() > keep {
            self.resizer.reset_internal_buffers();
        }
    }

    /// The `rect` of a picture at a new size.
    pub fn resize(&mut self, mut picture: Picture, rect: Rect, size: Size, filter: Filter) -> Result<Picture, Failure> {
        let layout = picture.layout;
        let mut out = Picture::new(size, layout);
        let whole = rect.width == f64::from(picture.size.width) && rect.height == f64::from(picture.size.height);
        if whole && size == picture.size {
            return Ok(picture);
        }
        if layout.has_alpha() {
            self.premultiply(&mut picture)?;
        }
        self.plane(&picture.data, picture.size, layout, rect, &mut out.data, size, filter)?;
        if layout.has_alpha() {
            self.unmultiply(&mut out)?;
        }
        Ok(out)
    }

    /// The `rect` of rows of pixels at a new size, every channel by itself.
    #[expect(
        clippy::too_many_arguments,
        reason = "two pictures, a rectangle and a filter: a struct would only rename them"
    )]
    pub fn plane(
        &mut self,
        source: &[u8],
        source_size: Size,
        layout: Layout,
        rect: Rect,
        out: &mut [u8],
        size: Size,
        filter: Filter,
    ) -> Result<(), Failure> {
        let shrinks = rect.width >= f64::from(size.width) && rect.height >= f64::from(size.height);
        if filter == Filter::Area && shrinks {
            self.shrink(source, source_size, layout, rect, out, size);
            return Ok(());
        }
        let source = ImageRef::new(source_size.width, source_size.height, source, pixel_type(layout))
            .map_err(Failure::decode)?;
        let mut out =
            Image::from_slice_u8(size.width, size.height, out, pixel_type(layout)).map_err(Failure::decode)?;
        let inside = inside(rect, source_size);
        let options = ResizeOptions::new()
            .resize_alg(algorithm(filter))
            .crop(inside.x, inside.y, inside.width, inside.height)
            .use_alpha(false);
        self.resizer.resize(&source, &mut out, Some(&options)).map_err(Failure::decode)
    }

    fn shrink(&mut self, source: &[u8], from: Size, layout: Layout, rect: Rect, out: &mut [u8], to: Size) {
        let from = (from.width as usize, from.height as usize);
        let to = (to.width as usize, to.height as usize);
        match layout.channels() {
            1 => self.area.shrink::<1>(source, from, rect, out, to),
            2 => self.area.shrink::<2>(source, from, rect, out, to),
            3 => self.area.shrink::<3>(source, from, rect, out, to),
            _ => self.area.shrink::<4>(source, from, rect, out, to),
        }
    }

    fn premultiply(&mut self, picture: &mut Picture) -> Result<(), Failure> {
        let mut image = as_image(picture)?;
        self.alpha.multiply_alpha_inplace(&mut image).map_err(Failure::decode)
    }

    fn unmultiply(&mut self, picture: &mut Picture) -> Result<(), Failure> {
        let mut image = as_image(picture)?;
        self.alpha.divide_alpha_inplace(&mut image).map_err(Failure::decode)
    }
}

fn as_image(picture: &mut Picture) -> Result<Image<'_>, Failure> {
    let kind = pixel_type(picture.layout);
    Image::from_slice_u8(picture.size.width, picture.size.height, &mut picture.data, kind).map_err(Failure::decode)
}

fn pixel_type(layout: Layout) -> PixelType {
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

/// The rectangle cut at the edges: the resizer refuses one that reaches beyond.
fn inside(rect: Rect, size: Size) -> Rect {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let (x, y) = (rect.x.clamp(0.0, width - 1.0), rect.y.clamp(0.0, height - 1.0));
    Rect { x, y, width: rect.width.min(width - x), height: rect.height.min(height - y) }
}
