//! The stages of the packet path; each file `sN_…` is one of them, the others are parts of them.

pub(crate) mod admit;
pub(crate) mod divert;
mod duplicate;
pub(crate) mod forward_plan;
mod fragment;
pub(crate) mod marking;
pub(crate) mod measure;
mod mss;
pub(crate) mod observe;
pub(crate) mod outer;
mod outer_ip;
mod redirect;
pub(crate) mod s1_parse;
pub(crate) mod s2_lookup;
pub(crate) mod s3_classify;
pub(crate) mod s4_enforce;
pub(crate) mod s5_account;
pub(crate) mod s6_apply;
mod send;
