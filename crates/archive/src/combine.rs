//! Joins files that agree along dimensions.
