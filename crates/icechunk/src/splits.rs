//! Manifest splitting: rules that distribute the references of large arrays over several manifests.

use icechunk::RepositoryConfig;
use icechunk::config::{
    ManifestConfig, ManifestSplitCondition, ManifestSplitDim, ManifestSplitDimCondition,
    ManifestSplittingConfig,
};

/// Adds splitting rules for arrays of more than `limit` chunks to a configuration, before the existing rules. An existing rule
/// that still divides an array well stays, since another rule would make the next commit write all manifests again. Returns
/// whether it added any. `arrays` are paths with a leading slash and chunk counts along each axis, slowest axis first.
pub(crate) fn add_rules(config: &mut RepositoryConfig, arrays: &[(String, Vec<u64>)], limit: u64) -> bool {
    let is_large = |counts: &[u64]| {
        counts.iter().try_fold(1_u64, |all, n| all.checked_mul(*n)).is_none_or(|n| n > limit)
    };
    let old = config.manifest().splitting().split_sizes.clone().unwrap_or_default();
    let new: Vec<_> = arrays
        .iter()
        .filter(|(_, counts)| is_large(counts))
        .map(|(path, counts)| {
            (ManifestSplitCondition::PathMatches { regex: exact_regex(path) }, split_sizes(counts, limit))
        })
        .zip(arrays.iter().filter(|(_, counts)| is_large(counts)))
        .filter(|((condition, _), (_, counts))| {
            let known = old.iter().find(|(other, _)| other == condition);
            !known.is_some_and(|(_, sizes)| divides_well(sizes, counts, limit))
        })
        .map(|(rule, _)| rule)
        .collect();
    if new.is_empty() {
        return false;
    }
    let manifest = config.manifest.get_or_insert_with(ManifestConfig::default);
    let split_sizes = Some(new.into_iter().chain(old).collect());
    manifest.splitting = Some(ManifestSplittingConfig { split_sizes });
    true
}

/// Returns the extent of a manifest in chunks along each axis, so that it contains at most `limit` chunks that are adjacent
/// in row-major order.
fn split_sizes(counts: &[u64], limit: u64) -> Vec<ManifestSplitDim> {
    let mut left = limit.max(1);
    let mut sizes: Vec<_> = counts
        .iter()
        .enumerate()
        .rev()
        .map(|(axis, count)| {
            let size = left.min((*count).max(1));
            left = if size == (*count).max(1) { (left / size).max(1) } else { 1 };
            let num_chunks = u32::try_from(size).unwrap_or(u32::MAX);
            ManifestSplitDim { condition: ManifestSplitDimCondition::Axis(axis), num_chunks }
        })
        .collect();
    sizes.reverse();
    sizes
}

/// Returns whether a rule makes manifests of roughly `limit` chunks.
fn divides_well(sizes: &[ManifestSplitDim], counts: &[u64], limit: u64) -> bool {
    let chunks = counts.iter().enumerate().try_fold(1_u64, |chunks, (axis, count)| {
        let is_axis = |dim: &&ManifestSplitDim| matches!(dim.condition, ManifestSplitDimCondition::Axis(at) if at == axis);
        let size = sizes.iter().find(is_axis)?.num_chunks;
        chunks.checked_mul(u64::from(size).min(*count))
    });
    chunks.is_some_and(|chunks| (limit / 10..=limit.saturating_mul(5)).contains(&chunks))
}

/// Returns a regular expression that matches exactly this text.
fn exact_regex(text: &str) -> String {
    let escaped: String = text
        .chars()
        .flat_map(|c| {
            ["\\"]
                .into_iter()
                .filter(move |_| c.is_ascii_punctuation() && c != '/' && c != '_')
                .flat_map(str::chars)
                .chain([c])
        })
        .collect();
    format!("^{escaped}$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64]) -> Vec<u32> {
        split_sizes(counts, 1000).iter().map(|dim| dim.num_chunks).collect()
    }

    #[test]
    fn manifests_contain_adjacent_chunks() {
        assert_eq!(of(&[50_000]), [1000]);
        assert_eq!(of(&[400, 10, 20]), [5, 10, 20]);
        assert_eq!(of(&[4, 3000]), [1, 1000]);
        assert_eq!(of(&[4, 3, 600]), [1, 1, 600]);
    }

    #[test]
    fn large_arrays_get_one_rule() {
        let arrays = [("/a.b/c".to_owned(), vec![50, 50]), ("/small".to_owned(), vec![3])];
        let mut config = RepositoryConfig::default();
        assert!(add_rules(&mut config, &arrays, 1000));
        assert!(!add_rules(&mut config, &arrays, 1000));
        let rules = config.manifest().splitting().split_sizes.clone().unwrap_or_default();
        let expected = ManifestSplitCondition::PathMatches { regex: r"^/a\.b/c$".to_owned() };
        assert_eq!(rules.first().map(|(condition, _)| condition), Some(&expected));
    }

    #[test]
    fn rules_stay_while_they_divide_well() {
        let arrays = |counts: &[u64]| [("/a".to_owned(), counts.to_vec())];
        let mut config = RepositoryConfig::default();
        assert!(add_rules(&mut config, &arrays(&[400, 10, 20]), 1000));
        for grown in [[800, 10, 20], [400, 12, 20], [400, 10, 60]] {
            assert!(!add_rules(&mut config, &arrays(&grown), 1000), "{grown:?}");
        }
        // A rule for manifests of five times the size stays, one for far larger ones does not.
        assert!(!add_rules(&mut config, &arrays(&[400, 10, 20]), 200));
        assert!(add_rules(&mut config, &arrays(&[400, 10, 20]), 100));
        assert!(add_rules(&mut config, &arrays(&[400_000]), 1000));
    }
}
