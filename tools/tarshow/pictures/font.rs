//! Draws text in Noto Sans Mono. Typographic marks that the font lacks become plain ones; other missing characters
//! become boxes.

use image::{Rgb, RgbImage};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use unicode_width::UnicodeWidthChar;

const SIZE: RasterHeight = RasterHeight::Size16;
const WEIGHT: FontWeight = FontWeight::Regular;

/// Pixels between lines.
pub const LINE: u32 = 18;

/// Pixels per character.
pub const WIDTH: u32 = get_raster_width(WEIGHT, SIZE) as u32;

/// Draws one line of text with its upper left corner at `(x, y)`; text outside of the picture is clipped.
pub fn draw(image: &mut RgbImage, (x, y): (u32, u32), text: &str, color: [u8; 3]) {
    for (at, c) in glyphs(text).enumerate() {
        let x = x + at as u32 * WIDTH;
        match get_raster(c, WEIGHT, SIZE) {
            Some(glyph) => {
                for (row, line) in glyph.raster().iter().enumerate() {
                    for (column, &strength) in line.iter().enumerate() {
                        blend(image, (x + column as u32, y + row as u32), color, strength);
                    }
                }
            }
            None => draw_box(image, (x, y), color),
        }
    }
}

/// Wraps a text into at most `lines` lines of `columns` characters, between words if possible.
pub fn wrap(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut out: Vec<Vec<char>> = vec![Vec::new()];
    for word in text.split_whitespace() {
        let word: Vec<char> = glyphs(word).collect();
        let used = out.last().map_or(0, Vec::len);
        if used > 0 && used + 1 + word.len() <= columns {
            if let Some(line) = out.last_mut() {
                line.push(' ');
                line.extend(word);
            }
            continue;
        }
        if used > 0 {
            out.push(Vec::new());
        }
        for part in word.chunks(columns.max(1)) {
            match out.last_mut() {
                Some(line) if line.is_empty() => line.extend(part),
                _ => out.push(part.to_vec()),
            }
        }
        if out.len() > lines {
            break;
        }
    }
    let whole = out.len() <= lines;
    out.truncate(lines);
    if let Some(last) = out.last_mut().filter(|_| !whole) {
        last.truncate(columns.saturating_sub(3));
        last.extend("...".chars());
    }
    out.into_iter().map(|line| line.into_iter().collect()).collect()
}

/// The characters to draw: missing marks are replaced by plain ones, and characters without a width are left out.
fn glyphs(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.width().is_some_and(|width| width > 0)).map(|c| match c {
        '‘' | '’' | '′' => '\'',
        '“' | '”' | '″' => '"',
        '–' | '—' | '‐' | '−' => '-',
        '…' => '.',
        '\u{a0}' | '\u{202f}' | '\u{3000}' => ' ',
        c => c,
    })
}

fn draw_box(image: &mut RgbImage, (x, y): (u32, u32), color: [u8; 3]) {
    let (left, right, top, bottom) = (x + 1, x + WIDTH - 2, y + 4, y + 13);
    for column in left..=right {
        blend(image, (column, top), color, 120);
        blend(image, (column, bottom), color, 120);
    }
    for row in top..=bottom {
        blend(image, (left, row), color, 120);
        blend(image, (right, row), color, 120);
    }
}

fn blend(image: &mut RgbImage, (x, y): (u32, u32), color: [u8; 3], strength: u8) {
    let Some(pixel) = image.get_pixel_mut_checked(x, y) else { return };
    let strength = u32::from(strength);
    let mix = |old: u8, new: u8| ((u32::from(old) * (255 - strength) + u32::from(new) * strength) / 255) as u8;
    let Rgb(old) = *pixel;
    *pixel = Rgb([mix(old[0], color[0]), mix(old[1], color[1]), mix(old[2], color[2])]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_words() {
        assert_eq!(wrap("a black cat on a mat", 10, 2), ["a black", "cat on ..."]);
        assert_eq!(wrap("a black cat", 20, 2), ["a black cat"]);
        assert_eq!(wrap("abcdefghijklmnop", 6, 2), ["abcdef", "ghi..."]);
        assert_eq!(wrap("", 6, 2), [""]);
    }

    #[test]
    fn missing_glyphs_leave_a_trace() {
        let blank = || RgbImage::from_pixel(40, 18, Rgb([255; 3]));
        for text in ["a", "é", "ł", "猫", "“"] {
            let mut image = blank();
            draw(&mut image, (2, 0), text, [0; 3]);
            assert_ne!(image, blank(), "{text}");
        }
        let mut image = blank();
        draw(&mut image, (2, 0), "\u{301}\u{200b}", [0; 3]);
        draw(&mut image, (1000, 1000), "far out", [0; 3]);
        assert_eq!(image, blank());
    }
}
