#!/bin/sh
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
#
# flash.sh BUILD_DIR: the simulated board's flash tool. The board's flash is a file.
set -eu
board=${MCUFUSE_SIM_DIR:-${TMPDIR:-/tmp}/mcufuse-sim-$(id -u)}
mkdir -p "$board"
cp "$1/zephyr/zephyr.elf" "$board/flash.new"
mv "$board/flash.new" "$board/flash.elf"
echo "flashed $1/zephyr/zephyr.elf to $board"
