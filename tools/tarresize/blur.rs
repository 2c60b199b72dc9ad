//! Blurring boxes beyond recognition: each is averaged down to a few cells and drawn back smoothly.

use image::metadata::Orientation;
use serde_json::Value;

use crate::area::Rect;
use crate::failure::{Code, Failure};
use crate::orient::stored_point;
use crate::picture::Picture;
use crate::resample::{Filter, Resampler};
use crate::size::Size;

/// Cells along the longer side of a box: what is left of a face.
const CELLS: f64 = 6.0;

/// Left, top, right, bottom in 0 to 1 of the image as it is seen.
pub type Box = [f64; 4];

/// The boxes of a JSON value: a list of `[x0, y0, x1, y1]`, or null for none.
pub fn boxes(value: &Value) -> Result<Vec<Box>, Failure> {
    let wrong = || Failure::new(Code::Boxes, "boxes are a list of [x0, y0, x1, y1] between 0 and 1");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().map(|item| one_box(item).ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}

fn one_box(value: &Value) -> Option<Box> {
    let numbers: Option<Vec<f64>> = value.as_array()?.iter().map(Value::as_f64).collect();
    let sides: Box = numbers?.try_into().ok()?;
    // A little beyond the edge is a detector's habit; far beyond, these are pixels.
    sides.iter().all(|side| (-0.5..=1.5).contains(side)).then_some(sides)
}

/// Blurs boxes in a picture that still is as it was stored.
pub fn blur(
    picture: &mut Picture,
    boxes: &[Box],
    orientation: Orientation,
    resampler: &mut Resampler,
) -> Result<(), Failure> {
    for &[x0, y0, x1, y1] in boxes {
        let (a, b) = (stored_point((x0, y0), orientation), stored_point((x1, y1), orientation));
        let (left, width) = pixels(a.0, b.0, picture.size.width);
        let (top, height) = pixels(a.1, b.1, picture.size.height);
        if width > 0 && height > 0 {
            blur_pixels(picture, (left, top), Size::new(width, height), resampler)?;
        }
    }
    Ok(())
}

/// The whole pixels that an interval touches: the first and how many.
fn pixels(a: f64, b: f64, side: u32) -> (u32, u32) {
    let at = |point: f64| (point.clamp(0.0, 1.0) * f64::from(side)).clamp(0.0, f64::from(side));
    let (from, to) = (at(a.min(b)).floor() as u32, at(a.max(b)).ceil() as u32);
    (from, to - from)
}

fn blur_pixels(
    picture: &mut Picture,
    (left, top): (u32, u32),
    size: Size,
    resampler: &mut Resampler,
) -> Result<(), Failure> {
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
    let few = Size::new(count(size.width), count(size.height));
    let whole = |size: Size| Rect { x: 0.0, y: 0.0, width: size.width.into(), height: size.height.into() };
    let cells = resampler.resize(patch, whole(size), few, Filter::Area)?;
    let smooth = resampler.resize(cells, whole(few), size, Filter::Linear)?;
    for (from, y) in smooth.data.chunks_exact(row).zip(rows) {
        picture.data[y * stride + start..][..row].copy_from_slice(from);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Layout;
    use serde_json::json;

    #[test]
    fn only_lists_of_four_fractions_are_boxes() {
        assert_eq!(boxes(&json!([[0, 0.5, 1, 1]])).unwrap(), [[0.0, 0.5, 1.0, 1.0]]);
        assert_eq!(boxes(&Value::Null).unwrap().len(), 0);
        for wrong in
            [json!([0, 0, 1, 1]), json!([[0, 0, 1]]), json!("x"), json!([[0, 0, 200, 100]]), json!([[0, 0, 1, "1"]])]
        {
            assert_eq!(boxes(&wrong).unwrap_err().code, Code::Boxes, "{wrong}");
        }
    }

    #[test]
    fn stripes_vanish_inside_the_box_and_stay_outside() {
        let size = Size::new(64, 64);
        let data: Vec<u8> = (0..64 * 64).map(|i| if i % 2 == 0 { 0 } else { 255 }).collect();
        let mut picture = Picture { size, layout: Layout::Gray, data };
        blur(&mut picture, &[[0.5, 0.0, 1.0, 0.5]], Orientation::NoTransforms, &mut Resampler::default()).unwrap();
        let pixel = |x: usize, y: usize| picture.data[y * 64 + x];
        for (x, y) in [(33, 1), (48, 16), (63, 31), (62, 30)] {
            assert!((100..=155).contains(&pixel(x, y)), "{x},{y} is {}", pixel(x, y));
        }
        assert_eq!([pixel(31, 31), pixel(30, 2), pixel(63, 32), pixel(62, 63)], [255, 0, 255, 0]);
    }

    #[test]
    fn boxes_follow_the_orientation() {
        let mut picture =
            Picture { size: Size::new(4, 2), layout: Layout::Gray, data: vec![0, 255, 0, 255, 0, 255, 0, 255] };
        // Seen upright it is 2 wide and 4 high; its top half is the stored left half.
        blur(&mut picture, &[[0.0, 0.0, 1.0, 0.5]], Orientation::Rotate90, &mut Resampler::default()).unwrap();
        assert_eq!(picture.data[2..4], [0, 255]);
    }
}
