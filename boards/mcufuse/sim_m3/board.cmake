# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0

board_runner_args(misc-flasher "${CMAKE_CURRENT_LIST_DIR}/flash.sh")
board_finalize_runner_args(misc-flasher)
board_set_flasher_ifnset(misc-flasher)
