//! Sixel graphics: bands of six rows, each drawn colour by colour.

use std::fmt::Write;

use image::imageops::{self, ColorMap};
use image::{Rgb, RgbImage};

/// Levels of red, green and blue: 252 colours, within the 256 that terminals have.
const STEPS: [u32; 3] = [6, 7, 6];

/// A fixed colour cube; dithering hides how coarse it is.
struct ColorCube;

impl ColorCube {
    fn level(value: u8, steps: u32) -> u32 {
        (u32::from(value) * (steps - 1) + 127) / 255
    }
}

impl ColorMap for ColorCube {
    type Color = Rgb<u8>;

    fn index_of(&self, color: &Rgb<u8>) -> usize {
        let [red, green, blue] = [0, 1, 2].map(|i| ColorCube::level(color.0[i], STEPS[i]));
        ((red * STEPS[1] + green) * STEPS[2] + blue) as usize
    }

    fn map_color(&self, color: &mut Rgb<u8>) {
        *color = Rgb([0, 1, 2].map(|i| (ColorCube::level(color.0[i], STEPS[i]) * 255 / (STEPS[i] - 1)) as u8));
    }
}

/// The escape sequence that shows the picture at the cursor and moves the cursor below it.
pub fn encode(picture: &RgbImage) -> String {
    let mut dithered = picture.clone();
    if picture.width() > 1 {
        imageops::dither(&mut dithered, &ColorCube); // dither panics on a single column
    } else {
        dithered.pixels_mut().for_each(|pixel| ColorCube.map_color(pixel));
    }
    let (width, height) = dithered.dimensions();
    let mut out = format!("\x1bP0;1q\"1;1;{width};{height}");
    for (index, [red, green, blue]) in palette() {
        _ = write!(out, "#{index};2;{red};{green};{blue}");
    }
    for top in (0..height).step_by(6) {
        encode_band(&dithered, top, &mut out);
        out.push('-');
    }
    out + "\x1b\\"
}

/// The index of each colour, and its components in percent.
fn palette() -> impl Iterator<Item = (u32, [u32; 3])> {
    let [reds, greens, blues] = STEPS;
    (0..reds * greens * blues).map(move |index| {
        let levels = [index / (greens * blues), index / blues % greens, index % blues];
        (index, [0, 1, 2].map(|i| levels[i] * 100 / (STEPS[i] - 1)))
    })
}

fn encode_band(picture: &RgbImage, top: u32, out: &mut String) {
    let (width, rows) = (picture.width() as usize, (picture.height() - top).min(6));
    let mut bands: std::collections::BTreeMap<usize, Vec<u8>> = std::collections::BTreeMap::new();
    for row in 0..rows {
        for x in 0..picture.width() {
            let color = ColorCube.index_of(picture.get_pixel(x, top + row));
            bands.entry(color).or_insert_with(|| vec![0; width])[x as usize] |= 1 << row;
        }
    }
    for (color, columns) in bands {
        _ = write!(out, "#{color}");
        for run in columns.chunk_by(|a, b| a == b) {
            let sixel = char::from(b'?' + run[0]);
            if run.len() > 3 {
                _ = write!(out, "!{}{sixel}", run.len());
            } else {
                out.extend(std::iter::repeat_n(sixel, run.len()));
            }
        }
        out.push('$');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_one_colour_is_a_run_a_band() {
        let text = encode(&RgbImage::from_pixel(10, 7, Rgb([255, 0, 0])));
        assert!(text.starts_with("\x1bP0;1q\"1;1;10;7#0;2;0;0;0#"));
        // Six rows set all bits; the seventh row sets the first bit alone.
        assert!(text.ends_with("#210!10~$-#210!10@$-\x1b\\"), "{}", text.escape_debug());
    }
}
