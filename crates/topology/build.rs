//! Binds the installed hwloc: finds it and translates its header. Everything generated stays in
//! `OUT_DIR`.

use std::env;
use std::path::PathBuf;
use std::process::exit;

/// Oldest hwloc whose application binary interface is that of the bound header (2.x).
const HWLOC_VERSION_MIN: &str = "2.1";

/// First hwloc with another binary interface.
const HWLOC_VERSION_BELOW: &str = "3.0";

/// Patterns of bound functions: those that `adit-topology` calls.
const FUNCTIONS: [&str; 3] = [
    "hwloc_topology_(init|destroy|load|set_xml|set_synthetic|set_flags|set_io_types_filter|abi_check)",
    "hwloc_topology_get_(topology|allowed)_cpuset",
    "hwloc_get_(type_depth|nbobjs_by_depth|obj_by_depth)|hwloc_bitmap_list_snprintf",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let missing = format!(
        "hwloc from {HWLOC_VERSION_MIN} on and below {HWLOC_VERSION_BELOW} was not found by pkg-config; \
         install it (Debian and Ubuntu: `apt-get install libhwloc-dev pkg-config libclang-dev`) or \
         point PKG_CONFIG_PATH at the folder of hwloc.pc"
    );
    let found = pkg_config::Config::new()
        .range_version(HWLOC_VERSION_MIN..HWLOC_VERSION_BELOW)
        .probe("hwloc")
        .unwrap_or_else(|error| fail(&format!("{missing}\n{error}")));
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_else(|| fail("OUT_DIR is not set")));
    let includes = found.include_paths.iter().map(|path| format!("-I{}", path.display()));
    let mut builder = bindgen::Builder::default()
        .header_contents("hwloc_bound.h", "#include <hwloc.h>\n")
        .clang_args(includes)
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .use_core()
        .generate_comments(false)
        .derive_debug(false)
        .merge_extern_blocks(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .allowlist_type("hwloc_obj|hwloc_obj_attr_u|hwloc_obj_type_t|hwloc_topology_flags_e");
    for pattern in FUNCTIONS {
        builder = builder.allowlist_function(pattern);
    }
    let bindings = builder.generate().unwrap_or_else(|error| {
        fail(&format!(
            "libclang could not translate the header of hwloc ({error}); install libclang \
             (Debian and Ubuntu: `apt-get install libclang-dev`)"
        ))
    });
    if let Err(error) = bindings.write_to_file(out.join("bindings.rs")) {
        fail(&format!("bindings.rs could not be written: {error}"));
    }
}

fn fail(reason: &str) -> ! {
    eprintln!("adit-topology: {reason}");
    exit(1)
}
