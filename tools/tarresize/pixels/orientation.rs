//! EXIF orientation: rotates and mirrors pixels, and maps displayed points back to stored ones.

use image::metadata::Orientation;

use crate::tarresize::geometry::PixelSize;
use crate::tarresize::pixels::picture::Picture;

/// Whether the orientation swaps width and height.
pub fn swaps_sides(orientation: Orientation) -> bool {
    orientation.to_exif() >= 5
}

/// The size of a picture after orientation.
pub fn oriented_size(size: PixelSize, orientation: Orientation) -> PixelSize {
    if swaps_sides(orientation) { size.transposed() } else { size }
}

/// Maps a point of the displayed image to the stored one; both in 0 to 1 from the left and top.
pub fn stored_point((x, y): (f64, f64), orientation: Orientation) -> (f64, f64) {
    match orientation {
        Orientation::NoTransforms => (x, y),
        Orientation::FlipHorizontal => (1.0 - x, y),
        Orientation::Rotate180 => (1.0 - x, 1.0 - y),
        Orientation::FlipVertical => (x, 1.0 - y),
        Orientation::Rotate90FlipH => (y, x),
        Orientation::Rotate90 => (y, 1.0 - x),
        Orientation::Rotate270FlipH => (1.0 - y, 1.0 - x),
        Orientation::Rotate270 => (1.0 - y, x),
    }
}

/// Rotates and mirrors the picture for display.
pub fn orient(picture: Picture, orientation: Orientation) -> Picture {
    let layout = picture.layout;
    let size = oriented_size(picture.size, orientation);
    let data = orient_plane(&picture.data, picture.size, layout.channels(), orientation);
    data.map_or(picture, |data| Picture { size, layout, data })
}

/// Rotates and mirrors rows of pixels of `channels` bytes; `None` if nothing changes.
pub fn orient_plane(data: &[u8], size: PixelSize, channels: usize, orientation: Orientation) -> Option<Vec<u8>> {
    if orientation == Orientation::NoTransforms {
        return None;
    }
    let (width, height) = (size.width as usize, size.height as usize);
    let to = oriented_size(size, orientation);
    let mut out = Vec::with_capacity(data.len());
    for y in 0..to.height as usize {
        for x in 0..to.width as usize {
            let (sx, sy) = match orientation {
                Orientation::NoTransforms => (x, y),
                Orientation::FlipHorizontal => (width - 1 - x, y),
                Orientation::Rotate180 => (width - 1 - x, height - 1 - y),
                Orientation::FlipVertical => (x, height - 1 - y),
                Orientation::Rotate90FlipH => (y, x),
                Orientation::Rotate90 => (y, height - 1 - x),
                Orientation::Rotate270FlipH => (width - 1 - y, height - 1 - x),
                Orientation::Rotate270 => (width - 1 - y, x),
            };
            let at = (sy * width + sx) * channels;
            out.extend_from_slice(&data[at..at + channels]);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tarresize::pixels::picture::PixelLayout;

    // Three columns, two rows: 1 2 3 / 4 5 6
    fn turned(exif: u8) -> (u32, Vec<u8>) {
        let picture = Picture { size: PixelSize::new(3, 2), layout: PixelLayout::Gray, data: vec![1, 2, 3, 4, 5, 6] };
        let turned = orient(picture, Orientation::from_exif(exif).unwrap());
        (turned.size.width, turned.data)
    }

    #[test]
    fn every_orientation_is_as_exif_says() {
        assert_eq!(turned(1), (3, vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(turned(2), (3, vec![3, 2, 1, 6, 5, 4]));
        assert_eq!(turned(3), (3, vec![6, 5, 4, 3, 2, 1]));
        assert_eq!(turned(4), (3, vec![4, 5, 6, 1, 2, 3]));
        assert_eq!(turned(5), (2, vec![1, 4, 2, 5, 3, 6]));
        assert_eq!(turned(6), (2, vec![4, 1, 5, 2, 6, 3]));
        assert_eq!(turned(7), (2, vec![6, 3, 5, 2, 4, 1]));
        assert_eq!(turned(8), (2, vec![3, 6, 2, 5, 1, 4]));
    }

    #[test]
    fn points_go_back_to_where_their_pixel_was() {
        for exif in 1..=8 {
            let orientation = Orientation::from_exif(exif).unwrap();
            let size = oriented_size(PixelSize::new(3, 2), orientation);
            let (_, pixels) = turned(exif);
            for (i, &value) in pixels.iter().enumerate() {
                let centre = |i: u32, n: u32| (f64::from(i) + 0.5) / f64::from(n);
                let (x, y) = (i as u32 % size.width, i as u32 / size.width);
                let (sx, sy) = stored_point((centre(x, size.width), centre(y, size.height)), orientation);
                assert_eq!((sy * 2.0) as u8 * 3 + (sx * 3.0) as u8 + 1, value, "orientation {exif}");
            }
        }
    }
}
