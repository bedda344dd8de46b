#!/bin/sh
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
#
# serial.sh: the simulated board's serial line, for `serial_pty` of a hardware map. Twister starts it
# before flashing; the board is silent until its flash has been written, and then runs.
set -eu
board=${MCUFUSE_SIM_DIR:-${TMPDIR:-/tmp}/mcufuse-sim-$(id -u)}
mkdir -p "$board"
rm -f "$board/flash.elf"
while [ ! -f "$board/flash.elf" ]; do
	sleep 0.05
done
exec "${MCUFUSE_QEMU:-qemu-system-arm}" -M lm3s6965evb -cpu cortex-m3 -nographic -vga none -net none \
	-monitor none -icount shift=6,align=off,sleep=off -rtc clock=vm -serial stdio \
	-kernel "$board/flash.elf"
