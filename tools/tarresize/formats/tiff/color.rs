//! Turns the samples of a TIFF into pixels.

use crate::tarresize::formats::tiff::layout::{Alpha, Photometric, TiffLayout};
use crate::tarresize::pixels::picture::{Picture, PixelLayout};
use crate::tarresize::pixels::yuv;

/// Converts samples, `layout.samples` bytes for each pixel, to a picture.
pub fn to_picture(layout: &TiffLayout, samples: Vec<u8>) -> Picture {
    let (count, size) = (layout.samples, layout.size);
    let alpha = |pixel: &[u8], at: usize| (pixel[at], layout.alpha == Some(Alpha::Premultiplied));
    let has_alpha = layout.alpha.is_some();
    let mut data = Vec::with_capacity(size.area() as usize * if has_alpha { 4 } else { 3 });
    let pixels = samples.chunks_exact(count);
    let (color, with_alpha) = match layout.photometric {
        Photometric::WhiteIsZero | Photometric::BlackIsZero => {
            let flip = if layout.photometric == Photometric::WhiteIsZero { 255 } else { 0 };
            pixels.for_each(|pixel| push(&mut data, &[pixel[0] ^ flip], has_alpha.then(|| alpha(pixel, 1))));
            (PixelLayout::Gray, PixelLayout::GrayAlpha)
        }
        Photometric::Cmyk => {
            pixels.for_each(|pixel| data.extend_from_slice(&pixel[..4]));
            (PixelLayout::Cmyk, PixelLayout::Cmyk)
        }
        Photometric::Palette => {
            let color = |index: u8| layout.palette.get(usize::from(index)).copied().unwrap_or_default();
            pixels.for_each(|pixel| data.extend(color(pixel[0])));
            (PixelLayout::Rgb, PixelLayout::Rgb)
        }
        Photometric::Rgb | Photometric::YCbCr | Photometric::Lab { .. } => {
            let convert = converter(layout.photometric);
            let push_pixel = |pixel: &[u8]| {
                let rgb = convert([pixel[0], pixel[1], pixel[2]]);
                push(&mut data, &rgb, has_alpha.then(|| alpha(pixel, 3)));
            };
            pixels.for_each(push_pixel);
            (PixelLayout::Rgb, PixelLayout::Rgba)
        }
    };
    Picture { size, layout: if has_alpha { with_alpha } else { color }, data }
}

/// Appends a colour, and its alpha if there is one; a premultiplied colour is divided by it.
fn push(data: &mut Vec<u8>, color: &[u8], alpha: Option<(u8, bool)>) {
    match alpha {
        None => data.extend_from_slice(color),
        Some((alpha, false)) => data.extend(color.iter().copied().chain([alpha])),
        Some((alpha, true)) => {
            let divide =
                |value: u8| ((u32::from(value) * 255 + u32::from(alpha) / 2) / u32::from(alpha.max(1))).min(255);
            data.extend(color.iter().map(|&value| divide(value) as u8).chain([alpha]));
        }
    }
}

fn converter(photometric: Photometric) -> fn([u8; 3]) -> [u8; 3] {
    match photometric {
        Photometric::YCbCr => yuv::full_range_to_rgb,
        Photometric::Lab { signed: true } => |[l, a, b]| lab_to_rgb(l, (a as i8).into(), (b as i8).into()),
        Photometric::Lab { signed: false } => |[l, a, b]| lab_to_rgb(l, i32::from(a) - 128, i32::from(b) - 128),
        _ => |rgb| rgb,
    }
}

/// CIE L*a*b* under D50 to sRGB.
fn lab_to_rgb(l: u8, a: i32, b: i32) -> [u8; 3] {
    const D50: [f64; 3] = [0.9642, 1.0, 0.8249];
    // XYZ under D50 to linear sRGB, Bradford-adapted.
    const TO_RGB: [[f64; 3]; 3] = [[3.1339, -1.6169, -0.4906], [-0.9788, 1.9161, 0.0335], [0.0719, -0.2290, 1.4052]];
    let y = (f64::from(l) * 100.0 / 255.0 + 16.0) / 116.0;
    let f = [y + f64::from(a) / 500.0, y, y - f64::from(b) / 200.0];
    let linear = |t: f64| if t > 6.0 / 29.0 { t.powi(3) } else { (t - 4.0 / 29.0) * 108.0 / 841.0 };
    let xyz: [f64; 3] = std::array::from_fn(|i| linear(f[i]) * D50[i]);
    let gamma = |value: f64| if value <= 0.003_130_8 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
    TO_RGB.map(|row| {
        let value: f64 = row.iter().zip(xyz).map(|(factor, value)| factor * value).sum();
        (gamma(value.max(0.0)).clamp(0.0, 1.0) * 255.0).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_white_gray_and_red_have_their_colors() {
        assert_eq!(lab_to_rgb(255, 0, 0), [255; 3]);
        assert_eq!(lab_to_rgb(0, 0, 0), [0; 3]);
        let [r, g, b] = lab_to_rgb(138, 81, 70);
        assert!(r > 250 && g < 8 && b < 8, "{r} {g} {b}");
    }
}
