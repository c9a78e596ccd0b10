# SPDX-License-Identifier: Apache-2.0
# Toolchain: Debian's cross compiler and the arm64 packages of the libraries (tools/check-aarch64 installs them). Programs
# that run during the build, protoc and flatc, are those of this machine; tests run under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# Without it, packages of this machine's architecture would be found where those of arm64 are missing.
set(CMAKE_IGNORE_PREFIX_PATH /usr/local)
set(CMAKE_SYSTEM_IGNORE_PATH /usr/lib/x86_64-linux-gnu /lib/x86_64-linux-gnu)
