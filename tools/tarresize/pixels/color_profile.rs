//! Converts pixels from their ICC profile to sRGB. Most profiles describe sRGB itself and cost nothing.

use std::sync::Arc;

use moxcms::{ColorProfile, DataColorSpace, Layout as Cms, Transform8BitExecutor, TransformOptions};

use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// Transforms cached per thread; the images of a dataset share few profiles.
const MAX_CACHED: usize = 8;

/// Longer profiles are rare, and too large to cache.
const MAX_CACHED_LEN: usize = 4 << 20;

/// A transform that changes no colour by more than this is skipped.
const TOLERANCE: u8 = 2;

/// Transforms by profile for one thread, most recently used first.
#[derive(Default)]
pub struct ProfileCache {
    cached: Vec<(Vec<u8>, PixelLayout, Option<Arc<Transform8BitExecutor>>)>,
}

impl ProfileCache {
    /// The transform from this profile to sRGB; `None` if the pixels need no change. Broken profiles are ignored, as in
    /// image viewers.
    pub fn transform(&mut self, profile: &[u8], layout: PixelLayout) -> Option<Arc<Transform8BitExecutor>> {
        if let Some(found) = self.cached.iter().position(|(bytes, kept, _)| bytes == profile && *kept == layout) {
            self.cached[..=found].rotate_right(1);
        } else if profile.len() > MAX_CACHED_LEN {
            return build_transform(profile, layout);
        } else {
            self.cached.truncate(MAX_CACHED - 1);
            self.cached.insert(0, (profile.to_vec(), layout, build_transform(profile, layout)));
        }
        self.cached[0].2.clone()
    }

    /// Converts the picture to sRGB.
    pub fn apply(&mut self, picture: Picture, profile: &[u8]) -> Picture {
        let Some(transform) = self.transform(profile, picture.layout) else { return picture };
        let (from, layout) = (picture.layout, output_layout(picture.layout));
        let mut out = Picture::new(picture.size, layout);
        match transform.transform(&picture.data, &mut out.data) {
            Ok(()) if from == PixelLayout::Gray => out.map::<3, 1>(PixelLayout::Gray, |[_, green, _]| [green]),
            Ok(()) => out,
            Err(_) => picture,
        }
    }
}

fn output_layout(layout: PixelLayout) -> PixelLayout {
    match layout {
        PixelLayout::Rgba => PixelLayout::Rgba,
        _ => PixelLayout::Rgb,
    }
}

fn build_transform(profile: &[u8], layout: PixelLayout) -> Option<Arc<Transform8BitExecutor>> {
    let profile = ColorProfile::new_from_slice(profile).ok()?;
    let (space, from, to) = match layout {
        PixelLayout::Gray => (DataColorSpace::Gray, Cms::Gray, Cms::Rgb),
        PixelLayout::Rgb => (DataColorSpace::Rgb, Cms::Rgb, Cms::Rgb),
        PixelLayout::Rgba => (DataColorSpace::Rgb, Cms::Rgba, Cms::Rgba),
        PixelLayout::Cmyk => (DataColorSpace::Cmyk, Cms::Rgba, Cms::Rgb),
        PixelLayout::GrayAlpha => return None,
    };
    if profile.color_space != space {
        return None;
    }
    let srgb = ColorProfile::new_srgb();
    let transform = profile.create_transform_8bit(from, &srgb, to, TransformOptions::default()).ok()?;
    changes_colors(transform.as_ref(), layout).then_some(transform)
}

/// Whether the transform changes any of a set of test colours by more than rounding.
fn changes_colors(transform: &Transform8BitExecutor, layout: PixelLayout) -> bool {
    let (from, to) = (layout.channels(), output_layout(layout).channels());
    if layout == PixelLayout::Cmyk {
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
    pairs.into_iter().any(|(old, new)| old.iter().zip(new).any(|(old, new)| old.abs_diff(*new) > TOLERANCE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tarresize::geometry::PixelSize;

    fn one(data: [u8; 3]) -> Picture {
        Picture { size: PixelSize::new(1, 1), layout: PixelLayout::Rgb, data: data.to_vec() }
    }

    #[test]
    fn srgb_is_left_alone_and_a_wide_gamut_is_not() {
        let mut profiles = ProfileCache::default();
        let srgb = ColorProfile::new_srgb().encode().unwrap();
        let wide = ColorProfile::new_adobe_rgb().encode().unwrap();
        assert!(profiles.transform(&srgb, PixelLayout::Rgb).is_none());
        assert!(profiles.transform(&wide, PixelLayout::Rgb).is_some());
        let made = profiles.apply(one([100, 200, 100]), &wide);
        assert!(made.data[1] > 200 && made.data[0] < 100, "{:?}", made.data);
    }

    #[test]
    fn a_broken_profile_changes_nothing() {
        assert_eq!(ProfileCache::default().apply(one([1, 2, 3]), b"nonsense"), one([1, 2, 3]));
    }
}
