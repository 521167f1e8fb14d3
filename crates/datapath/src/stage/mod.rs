//! The stages of the pipeline, in the order in which a packet meets them.

mod duplicate;
pub(crate) mod egress;
pub(crate) mod fast_path;
mod fragment;
mod marking;
pub(crate) mod outer;
mod outer_ip;
mod redirect;
pub(crate) mod s1_parse;
pub(crate) mod s2_lookup;
pub(crate) mod s3_classify;
pub(crate) mod s4_enforce;
pub(crate) mod s5_account;
pub(crate) mod s6_apply;
pub(crate) mod transmit;
