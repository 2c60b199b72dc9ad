//! Blurs boxes beyond recognition: each box and a margin around it are averaged down to a few cells and scaled back up
//! smoothly. The margin is that of img2dataset, whose blur is weaker: a Gaussian of about 3 % of the box.

use image::metadata::Orientation;
use serde_json::Value;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::pixels::area_filter::Rect;
use crate::tarresize::pixels::orientation::stored_point;
use crate::tarresize::pixels::picture::Picture;
use crate::tarresize::pixels::resample::{Filter, Resampler};

/// Cells along the longer side of a box; few enough to make a face unrecognisable.
const CELLS: f64 = 6.0;

/// The margin on each side, relative to the longer side of the box: detectors draw boxes tightly around faces.
const MARGIN: f64 = 0.1;

/// Left, top, right and bottom, from 0 to 1, relative to the image as displayed.
pub type BlurBox = [f64; 4];

/// Parses boxes from JSON: a list of `[x0, y0, x1, y1]`, or null for none.
pub fn parse_boxes(value: &Value) -> Result<Vec<BlurBox>, ImageFailure> {
    let invalid =
        || ImageFailure::new(ImageFailureCode::Boxes, "boxes must be a list of [x0, y0, x1, y1] between 0 and 1");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().map(|item| parse_box(item).ok_or_else(invalid)).collect(),
        _ => Err(invalid()),
    }
}

fn parse_box(value: &Value) -> Option<BlurBox> {
    let numbers: Option<Vec<f64>> = value.as_array()?.iter().map(Value::as_f64).collect();
    let sides: BlurBox = numbers?.try_into().ok()?;
    // Detectors may exceed the edge a little; much larger values must be pixels, not fractions.
    sides.iter().all(|side| (-0.5..=1.5).contains(side)).then_some(sides)
}

/// Blurs boxes in a picture that is not oriented yet.
pub fn blur(
    picture: &mut Picture,
    boxes: &[BlurBox],
    orientation: Orientation,
    resampler: &mut Resampler,
) -> Result<(), ImageFailure> {
    for &[x0, y0, x1, y1] in boxes {
        let (a, b) = (stored_point((x0, y0), orientation), stored_point((x1, y1), orientation));
        let sides = (f64::from(picture.size.width), f64::from(picture.size.height));
        let margin = MARGIN * ((a.0 - b.0).abs() * sides.0).max((a.1 - b.1).abs() * sides.1);
        let (left, width) = pixel_range(a.0 * sides.0, b.0 * sides.0, margin, picture.size.width);
        let (top, height) = pixel_range(a.1 * sides.1, b.1 * sides.1, margin, picture.size.height);
        if width > 0 && height > 0 {
            blur_pixels(picture, (left, top), PixelSize::new(width, height), resampler)?;
        }
    }
    Ok(())
}

/// The pixels that an interval and a margin on both sides touch: the first, and how many. An empty interval touches
/// none.
fn pixel_range(a: f64, b: f64, margin: f64, side: u32) -> (u32, u32) {
    let margin = if a == b { 0.0 } else { margin };
    let at = |point: f64| point.clamp(0.0, f64::from(side));
    let (from, to) = (at(a.min(b) - margin).floor() as u32, at(a.max(b) + margin).ceil() as u32);
    (from, to - from)
}

fn blur_pixels(
    picture: &mut Picture,
    (left, top): (u32, u32),
    size: PixelSize,
    resampler: &mut Resampler,
) -> Result<(), ImageFailure> {
    let channels = picture.layout.channels();
    let (stride, start) = (picture.size.width as usize * channels, left as usize * channels);
    let row = size.width as usize * channels;
    let rows = top as usize..(top + size.height) as usize;
    let mut patch = Picture::new(size, picture.layout);
    for (to, y) in patch.data.chunks_exact_mut(row).zip(rows.clone()) {
        to.copy_from_slice(&picture.data[y * stride + start..][..row]);
    }
    let cell = f64::from(size.width.max(size.height)) / CELLS;
    let count = |side: u32| (f64::from(side) / cell).round().clamp(1.0, CELLS).min(f64::from(side)) as u32;
    let coarse = PixelSize::new(count(size.width), count(size.height));
    let whole = |size: PixelSize| Rect { x: 0.0, y: 0.0, width: size.width.into(), height: size.height.into() };
    let cells = resampler.resize(patch, whole(size), coarse, Filter::Area)?;
    let smooth = resampler.resize(cells, whole(coarse), size, Filter::Linear)?;
    for (from, y) in smooth.data.chunks_exact(row).zip(rows) {
        picture.data[y * stride + start..][..row].copy_from_slice(from);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tarresize::pixels::picture::PixelLayout;
    use serde_json::json;

    #[test]
    fn only_lists_of_four_fractions_are_boxes() {
        assert_eq!(parse_boxes(&json!([[0, 0.5, 1, 1]])).unwrap(), [[0.0, 0.5, 1.0, 1.0]]);
        assert_eq!(parse_boxes(&Value::Null).unwrap().len(), 0);
        for wrong in
            [json!([0, 0, 1, 1]), json!([[0, 0, 1]]), json!("x"), json!([[0, 0, 200, 100]]), json!([[0, 0, 1, "1"]])]
        {
            assert_eq!(parse_boxes(&wrong).unwrap_err().code, ImageFailureCode::Boxes, "{wrong}");
        }
    }

    #[test]
    fn stripes_vanish_inside_the_box_and_stay_outside() {
        let size = PixelSize::new(64, 64);
        let data: Vec<u8> = (0..64 * 64).map(|i| if i % 2 == 0 { 0 } else { 255 }).collect();
        let mut picture = Picture { size, layout: PixelLayout::Gray, data };
        blur(&mut picture, &[[0.5, 0.0, 1.0, 0.5]], Orientation::NoTransforms, &mut Resampler::default()).unwrap();
        let pixel = |x: usize, y: usize| picture.data[y * 64 + x];
        // The box is 32 pixels wide, and so the margin 3.2.
        for (x, y) in [(28, 1), (33, 1), (48, 16), (63, 31), (62, 35)] {
            assert!((100..=155).contains(&pixel(x, y)), "{x},{y} is {}", pixel(x, y));
        }
        assert_eq!([pixel(27, 31), pixel(26, 2), pixel(63, 36), pixel(62, 63)], [255, 0, 255, 0]);
    }

    #[test]
    fn boxes_follow_the_orientation() {
        let size = PixelSize::new(40, 20);
        let data = (0..40 * 20).map(|i| if i % 2 == 0 { 0 } else { 255 }).collect();
        let mut picture = Picture { size, layout: PixelLayout::Gray, data };
        // Displayed, the picture is 20 wide and 40 high; its top half is the stored left half.
        blur(&mut picture, &[[0.0, 0.0, 1.0, 0.5]], Orientation::Rotate90, &mut Resampler::default()).unwrap();
        assert_eq!(picture.data[22..24], [0, 255]);
        assert!((100..=155).contains(&picture.data[20]));
    }
}
