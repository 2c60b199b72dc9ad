//! Half blocks: two pixels per character, the upper one as foreground and the lower one as background colour.

use image::{Rgb, RgbImage};

/// Renders the picture as lines of coloured characters, with 24-bit colour if `rich`, else with the 256 colours that
/// every terminal has.
pub fn encode(picture: &RgbImage, rich: bool) -> String {
    let mut lines = Vec::new();
    for y in (0..picture.height()).step_by(2) {
        let mut line = String::new();
        let mut last = String::new();
        for x in 0..picture.width() {
            let upper = color(38, *picture.get_pixel(x, y), rich);
            let lower = picture.get_pixel_checked(x, y + 1).map_or("49".into(), |pixel| color(48, *pixel, rich));
            let escape = format!("\x1b[{upper};{lower}m");
            if escape != last {
                line += &escape;
                last = escape;
            }
            line.push('▀');
        }
        lines.push(line + "\x1b[0m");
    }
    lines.join("\n")
}

fn color(ground: u8, Rgb([red, green, blue]): Rgb<u8>, rich: bool) -> String {
    if rich {
        return format!("{ground};2;{red};{green};{blue}");
    }
    let level = |value: u8| (u32::from(value) * 5 + 127) / 255;
    format!("{ground};5;{}", 16 + 36 * level(red) + 6 * level(green) + level(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_are_one_line() {
        let picture = RgbImage::from_fn(2, 3, |_, y| if y == 1 { Rgb([0, 0, 255]) } else { Rgb([255, 0, 0]) });
        assert_eq!(encode(&picture, true), "\x1b[38;2;255;0;0;48;2;0;0;255m▀▀\x1b[0m\n\x1b[38;2;255;0;0;49m▀▀\x1b[0m");
        assert!(encode(&picture, false).starts_with("\x1b[38;5;196;48;5;21m▀"));
    }
}
