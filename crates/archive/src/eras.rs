//! Groups files by what must agree.
