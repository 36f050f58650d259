# SPDX-License-Identifier: Apache-2.0
#
# What people type.  CMake does the building; `make help` lists the targets.

SHELL := /bin/bash
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
MINUTES ?= 30

# Debian 12 packages to build.  gtest and benchmark belong to the same tree; ccache is used where present.
BUILD_PACKAGES := clang-19 lld-19 llvm-19 libclang-rt-19-dev cmake ninja-build pkg-config \
	liburing-dev libhwloc-dev libspdlog-dev libcli11-dev libgtest-dev libgmock-dev libbenchmark-dev
# ... and to run the tests and the demo.
TEST_PACKAGES := clang-format-19 clang-tidy-19 python3 qemu-system-x86 busybox-static kmod xz-utils zstd \
	e2fsprogs xfsprogs btrfs-progs git strace attr fuse3

CTEST := ctest -j$(JOBS) --output-on-failure

.PHONY: help deps deps-test guest-files build test test-full demo asan tsan release format clean install soak bench-peers

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

deps: ## install the packages that building needs
	@tools/install-packages $(BUILD_PACKAGES)

deps-test: ## install the packages that tests and demo need, and fetch the guest's kernel and disk
	@tools/install-packages $(TEST_PACKAGES)
	@tools/guest-files

build: deps ## build everything (preset dev)
	@mkdir -p build
	@cmake --preset dev >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	cmake --build --preset dev

test: build deps-test ## build and run the tests; at most 30 minutes on 2 cores
	$(CTEST) --preset dev -LE full --output-junit $(CURDIR)/build/test.xml

test-full: test tsan ## all that, and what takes long: thread sanitizer, other daemons, Debian's own kernel as guest
	@tools/guest-files --full
	$(CTEST) --preset dev -L full --output-junit $(CURDIR)/build/test-full.xml

demo: deps ## a guest with 4 CPUs and 4 queues, end to end
	@tools/install-packages $(TEST_PACKAGES)
	@tools/guest-kernel >/dev/null
	@mkdir -p build
	@cmake --preset dev >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	cmake --build --preset dev --target viaduct
	@tools/demo build/dev/bin/viaduct

asan: deps ## the tests with the address and undefined behaviour sanitizers
	$(sanitized)

tsan: deps ## the tests with the thread sanitizer
	$(sanitized)

define sanitized
	cmake --preset $@ >/dev/null
	cmake --build --preset $@
	$(CTEST) --preset $@ --output-junit $(CURDIR)/build/$@.xml
endef

release: deps ## optimised programs, in build/release/bin
	cmake --preset release >/dev/null
	cmake --build --preset release --target viaduct viaductd

install: release ## programs, library, manual pages into $(DESTDIR)$(PREFIX)
	cmake --build --preset release --target viaduct_driver_library
	DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(PREFIX)

soak: build deps-test ## the integration and guest tests over and over (MINUTES=30)
	@tools/soak $(MINUTES)

bench-peers: release ## beside the virtiofsd of Rust and QEMU 7.2; writes docs/benchmarks.md (quiet machine, 5 minutes)
	@tools/install-packages qemu-system-common
	@tools/peers --docs

format: ## format every C++ file
	@tools/format

clean: ## remove build/ (fetched files stay in the cache)
	rm -rf build
