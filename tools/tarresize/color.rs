//! ICC profiles: pixels to sRGB. Most profiles in the wild say sRGB in other words; those cost nothing.

use std::sync::Arc;

use moxcms::{ColorProfile, DataColorSpace, Layout as Cms, Transform8BitExecutor, TransformOptions};

use crate::picture::{Layout, Picture};

/// Profiles kept ready: photos of one set share few.
const KEPT: usize = 8;

/// Longer profiles are not kept: they are as rare as they are large.
const LONGEST: usize = 4 << 20;

/// A profile that means nothing for these pixels, or changes them by no more than this, is none.
const SAME: u8 = 2;

/// Transforms made from profiles, the latest first, for one thread.
#[derive(Default)]
pub struct Profiles {
    kept: Vec<(Vec<u8>, Layout, Option<Arc<Transform8BitExecutor>>)>,
}

impl Profiles {
    /// The way from this profile to sRGB; none where the pixels may stay as they are. Broken profiles are ignored,
    /// as every viewer does.
    pub fn transform(&mut self, profile: &[u8], layout: Layout) -> Option<Arc<Transform8BitExecutor>> {
        if let Some(found) = self.kept.iter().position(|(bytes, kept, _)| bytes == profile && *kept == layout) {
            self.kept[..=found].rotate_right(1);
        } else if profile.len() > LONGEST {
            return make(profile, layout);
        } else {
            self.kept.truncate(KEPT - 1);
            self.kept.insert(0, (profile.to_vec(), layout, make(profile, layout)));
        }
        self.kept[0].2.clone()
    }

    /// The picture in sRGB.
    pub fn apply(&mut self, picture: Picture, profile: &[u8]) -> Picture {
        let Some(transform) = self.transform(profile, picture.layout) else { return picture };
        let (from, layout) = (picture.layout, target(picture.layout));
        let mut out = Picture::new(picture.size, layout);
        match transform.transform(&picture.data, &mut out.data) {
            Ok(()) if from == Layout::Gray => out.map::<3, 1>(Layout::Gray, |[_, green, _]| [green]),
            Ok(()) => out,
            Err(_) => picture,
        }
    }
}

fn target(layout: Layout) -> Layout {
    match layout {
        Layout::Rgba => Layout::Rgba,
        _ => Layout::Rgb,
    }
}

fn make(profile: &[u8], layout: Layout) -> Option<Arc<Transform8BitExecutor>> {
    let profile = ColorProfile::new_from_slice(profile).ok()?;
    let (space, from, to) = match layout {
        Layout::Gray => (DataColorSpace::Gray, Cms::Gray, Cms::Rgb),
        Layout::Rgb => (DataColorSpace::Rgb, Cms::Rgb, Cms::Rgb),
        Layout::Rgba => (DataColorSpace::Rgb, Cms::Rgba, Cms::Rgba),
        Layout::Cmyk => (DataColorSpace::Cmyk, Cms::Rgba, Cms::Rgb),
        Layout::GrayAlpha => return None,
    };
    if profile.color_space != space {
        return None;
    }
    let srgb = ColorProfile::new_srgb();
    let transform = profile.create_transform_8bit(from, &srgb, to, TransformOptions::default()).ok()?;
    changes(transform.as_ref(), layout).then_some(transform)
}

/// Whether the transform moves any of a few colours by more than rounding.
fn changes(transform: &Transform8BitExecutor, layout: Layout) -> bool {
    let (from, to) = (layout.channels(), target(layout).channels());
    if layout == Layout::Cmyk {
        return true;
    }
    let steps: Vec<u8> = (0..=255).step_by(15).collect();
    let mut probe = Vec::new();
    for &a in &steps {
        for &b in &steps {
            probe.extend_from_slice(&[a, b, 255 - a, 255][..from]);
        }
    }
    let mut out = vec![0; probe.len() / from * to];
    if transform.transform(&probe, &mut out).is_err() {
        return false;
    }
    let pairs = probe.chunks_exact(from).zip(out.chunks_exact(to));
    pairs.into_iter().any(|(old, new)| old.iter().zip(new).any(|(old, new)| old.abs_diff(*new) > SAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Size;

    fn one(data: [u8; 3]) -> Picture {
        Picture { size: Size::new(1, 1), layout: Layout::Rgb, data: data.to_vec() }
    }

    #[test]
    fn srgb_is_left_alone_and_a_wide_gamut_is_not() {
        let mut profiles = Profiles::default();
        let srgb = ColorProfile::new_srgb().encode().unwrap();
        let wide = ColorProfile::new_adobe_rgb().encode().unwrap();
        assert!(profiles.transform(&srgb, Layout::Rgb).is_none());
        assert!(profiles.transform(&wide, Layout::Rgb).is_some());
        let made = profiles.apply(one([100, 200, 100]), &wide);
        assert!(made.data[1] > 200 && made.data[0] < 100, "{:?}", made.data);
    }

    #[test]
    fn a_broken_profile_changes_nothing() {
        assert_eq!(Profiles::default().apply(one([1, 2, 3]), b"nonsense"), one([1, 2, 3]));
    }
}
