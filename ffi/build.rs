//! What cargo does not say to the linker: the name programs find the library by, and that it stays loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number is that of `pi_abi_version`.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpisession.so.0");
    // Thread-local destructors and the fork check would outlive a `dlclose`.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
