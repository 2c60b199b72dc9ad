//! Machines unlike the developer's: containers that share a volume, and old kernels.

mod namespaces;
mod old_kernel;
