# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0

include_guard(GLOBAL)

cmake_path(SET _mcufuse_generator NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../generator)
set(MCUFUSE_GENERATOR_DIR ${_mcufuse_generator}
    CACHE PATH "Directory that holds the Python package mcufuse")

# Which networks the image holds, for `west mcufuse`; directories of earlier ones may still be there.
file(WRITE ${CMAKE_BINARY_DIR}/mcufuse/networks.txt "")

# mcufuse_model_name(<config.yaml> <variable>)
#
# The C identifier that a configuration gives to its network: its `name:`, else the file's stem.
function(mcufuse_model_name config out)
  cmake_path(ABSOLUTE_PATH config BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  set(name "")
  if(EXISTS ${config})
    file(STRINGS ${config} line REGEX "^name:[ \t]*[\"']?[A-Za-z_]" LIMIT_COUNT 1)
    string(REGEX REPLACE "^name:[ \t]*[\"']?([A-Za-z0-9_]+).*" "\\1" name "${line}")
  endif()
  if(NOT name)
    cmake_path(GET config STEM LAST_ONLY name)
    string(MAKE_C_IDENTIFIER ${name} name)
  endif()
  set(${out} ${name} PARENT_SCOPE)
endfunction()

# mcufuse_add_model(<target> <config.yaml> [NAME <c-identifier>] [VECTORS <n>])
#
# Generates the network that <config.yaml> describes and links it into <target> (usually `app`).
# The sources of <target> may then include "<name>.h" and "<name>_stack.h", which defines
# <NAME>_STACK_BYTES, the most stack that an inference takes. Paths are relative to the caller's
# CMakeLists.txt.
#
#   NAME     C identifier of the network; default: `name:` of the file, else the file's stem
#   VECTORS  how many self-test vectors to keep in flash; default: CONFIG_MCUFUSE_SELFTEST_VECTORS
#            with CONFIG_MCUFUSE_SELFTEST, else none
#
# Each network is an archive of its own, libmcufuse_model_<name>.a, compiled with the optimisation
# flags for which its figures hold. It is generated, and checked against the board's memory, before
# anything of Zephyr is compiled.
function(mcufuse_add_model target config)
  cmake_parse_arguments(arg "" "NAME;VECTORS" "" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mcufuse_add_model(): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT CONFIG_MCUFUSE)
    message(FATAL_ERROR "mcufuse_add_model() needs CONFIG_MCUFUSE=y (in prj.conf)")
  endif()
  cmake_path(ABSOLUTE_PATH config BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  if(NOT arg_NAME)
    mcufuse_model_name(${config} arg_NAME)
  endif()
  if(NOT DEFINED arg_VECTORS)
    set(arg_VECTORS 0)
    if(CONFIG_MCUFUSE_SELFTEST)
      set(arg_VECTORS ${CONFIG_MCUFUSE_SELFTEST_VECTORS})
    endif()
  endif()

  set(dir ${CMAKE_BINARY_DIR}/mcufuse/${arg_NAME})
  set(lib mcufuse_model_${arg_NAME})
  if(TARGET ${lib})
    message(FATAL_ERROR "mcufuse_add_model(): two networks are called ${arg_NAME}; give one a NAME")
  endif()
  file(MAKE_DIRECTORY ${dir})
  file(APPEND ${CMAKE_BINARY_DIR}/mcufuse/networks.txt "${arg_NAME}\n")
  set(sources ${dir}/${arg_NAME}.c)
  set(headers ${dir}/${arg_NAME}.h)
  if(arg_VECTORS GREATER 0)
    list(APPEND sources ${dir}/${arg_NAME}_vectors.c)
    list(APPEND headers ${dir}/${arg_NAME}_vectors.h)
  endif()
  set(python ${CMAKE_COMMAND} -E env PYTHONPATH=${MCUFUSE_GENERATOR_DIR} ${PYTHON_EXECUTABLE})

  add_custom_command(
    OUTPUT ${sources} ${headers} ${dir}/report.json
    DEPFILE ${dir}/${arg_NAME}.d
    COMMAND ${python} -m mcufuse compile -q ${config} -o ${dir} --dotconfig ${DOTCONFIG}
            --name ${arg_NAME} --vectors ${arg_VECTORS} --depfile ${dir}/${arg_NAME}.d
    DEPENDS ${config} ${DOTCONFIG}
    COMMENT "mcufuse: generating ${arg_NAME}"
    VERBATIM)

  # Networks that came before in this image use memory, too.
  get_property(others GLOBAL PROPERTY mcufuse_others)
  get_property(reports GLOBAL PROPERTY mcufuse_reports)
  add_custom_command(
    OUTPUT ${dir}/cflags ${dir}/fit.json ${dir}/stack.ld
    COMMAND ${python} -m mcufuse.zephyr.fit ${dir}/report.json ${others}
            --config ${config} --dotconfig ${DOTCONFIG} --edt ${EDT_PICKLE}
            --zephyr-base ${ZEPHYR_BASE} -o ${dir}
    DEPENDS ${config} ${dir}/report.json ${reports} ${DOTCONFIG} ${EDT_PICKLE}
            ${MCUFUSE_GENERATOR_DIR}/mcufuse/zephyr/fit.py
    COMMENT "mcufuse: fitting ${arg_NAME} into ${BOARD}${BOARD_QUALIFIERS}"
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY mcufuse_others --other ${dir}/report.json ${config})
  set_property(GLOBAL APPEND PROPERTY mcufuse_reports ${dir}/report.json)
  add_custom_target(mcufuse_gen_${arg_NAME} DEPENDS ${sources} ${headers} ${dir}/fit.json)
  add_dependencies(zephyr_generated_headers mcufuse_gen_${arg_NAME})

  add_library(${lib} STATIC ${sources})
  target_include_directories(${lib} PUBLIC ${dir})
  target_link_libraries(${lib} PRIVATE zephyr_interface)
  add_dependencies(${lib} zephyr_generated_headers)
  # On the file, not on the target: so they come after Zephyr's own -Os and win.
  set_source_files_properties(${dir}/${arg_NAME}.c PROPERTIES
    COMPILE_OPTIONS "@${dir}/cflags" OBJECT_DEPENDS ${dir}/cflags)

  add_dependencies(${target} mcufuse_gen_${arg_NAME})
  target_link_libraries(${target} PUBLIC ${lib})
  _mcufuse_add_stack_header(${target} ${arg_NAME} ${lib} ${dir})
endfunction()

# The network, linked with nothing but what it calls, tells how much stack it takes. This image
# never runs. The application is compiled after it.
function(_mcufuse_add_stack_header target name lib dir)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR CONFIG_LTO)
    return()
  endif()
  set(image mcufuse_stack_${name})
  add_executable(${image} ${ZEPHYR_BASE}/misc/empty_file.c)
  set_target_properties(${image} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${dir} OUTPUT_NAME ${name}_stack SUFFIX .elf)
  target_link_libraries(${image} PRIVATE ${lib} mcufuse)
  foreach(libc lib__libc__minimal lib__libc__newlib lib__libc__picolibc lib__libc__common)
    if(TARGET ${libc})
      target_link_libraries(${image} PRIVATE ${libc})
    endif()
  endforeach()
  target_link_options(${image} PRIVATE
    LINKER:--entry=mcufuse_run LINKER:--undefined=${name}_model LINKER:--undefined=mcufuse_feed_rows
    LINKER:--unresolved-symbols=ignore-all LINKER:--script=${dir}/stack.ld)
  set_property(TARGET ${image} PROPERTY LINK_DEPENDS ${dir}/stack.ld)
  add_dependencies(${image} zephyr_generated_headers)

  set(python ${CMAKE_COMMAND} -E env PYTHONPATH=${MCUFUSE_GENERATOR_DIR} ${PYTHON_EXECUTABLE})
  set(package ${MCUFUSE_GENERATOR_DIR}/mcufuse)
  add_custom_command(
    OUTPUT ${dir}/${name}_stack.h
    COMMAND ${python} -m mcufuse.zephyr.stacksize $<TARGET_FILE:${image}> ${name}
            --gcc ${CMAKE_C_COMPILER} -o ${dir}/${name}_stack.h
    DEPENDS ${image} ${package}/zephyr/stacksize.py ${package}/stack.py ${package}/disasm.py
    COMMENT "mcufuse: the stack of ${name}"
    VERBATIM)
  add_custom_target(mcufuse_stack_header_${name} DEPENDS ${dir}/${name}_stack.h)
  add_dependencies(${target} mcufuse_stack_header_${name})
endfunction()
