# SPDX-License-Identifier: Apache-2.0
# The Debian package of the static program: cmake --preset static && cmake --build build/static && cpack -G DEB (in build/static).
# tests/package/check-deb builds, checks, installs and removes it.
set(folder ${PROJECT_BINARY_DIR}/debian)
file(MAKE_DIRECTORY ${folder})
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/changelog newest LIMIT_COUNT 1)
if(NOT newest MATCHES "^lowtide \\(${PROJECT_VERSION}-([0-9]+)\\)")
  message(FATAL_ERROR "tools/debian/changelog begins with '${newest}', which is not version ${PROJECT_VERSION}")
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE ${CMAKE_MATCH_1})

# Compressed without names and times, so that the same sources give the same bytes.
function(lowtide_compressed source name)
  add_custom_command(OUTPUT ${folder}/${name} COMMAND gzip -9nc ${source} > ${folder}/${name} DEPENDS ${source} VERBATIM)
endfunction()
lowtide_compressed(${PROJECT_SOURCE_DIR}/CHANGELOG.md changelog.gz)
lowtide_compressed(${CMAKE_CURRENT_LIST_DIR}/changelog changelog.Debian.gz)
add_custom_command(OUTPUT ${folder}/man1
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder}/man1
                   COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_BINARY_DIR}/share/man/man1 ${folder}/man1
                   COMMAND gzip -9nr ${folder}/man1
                   DEPENDS ${PROJECT_BINARY_DIR}/share/made VERBATIM)
add_custom_target(debian ALL DEPENDS ${folder}/changelog.gz ${folder}/changelog.Debian.gz ${folder}/man1)
add_dependencies(debian share)

install(TARGETS lowtide RUNTIME DESTINATION bin COMPONENT debian)
install(DIRECTORY ${folder}/man1 DESTINATION share/man COMPONENT debian)
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/bash-completion ${PROJECT_BINARY_DIR}/share/fish DESTINATION share
        COMPONENT debian)
install(FILES ${PROJECT_BINARY_DIR}/share/zsh/site-functions/_lowtide DESTINATION share/zsh/vendor-completions
        COMPONENT debian)
install(FILES ${folder}/changelog.gz ${folder}/changelog.Debian.gz ${CMAKE_CURRENT_LIST_DIR}/copyright
        DESTINATION share/doc/lowtide COMPONENT debian)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/lintian-overrides DESTINATION share/lintian/overrides RENAME lowtide
        COMPONENT debian)

set(CPACK_PACKAGE_NAME lowtide)
set(CPACK_PACKAGE_CONTACT "Lowtide maintainers <maintainers@users.noreply.a-seed-6bea5ad4.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL debian)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_STRIP_FILES OFF)  # this machine's strip does not know the format; the program has no debug information
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "converter of very large ONNX models to TFLite in little memory")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Lowtide converts neural networks from ONNX to TFLite (LiteRT). Weights stay
on disk until their bytes are written: a model of several gigabytes is
converted in about twenty megabytes of memory. The program also lists models
of both formats, and compares a TFLite file with what an ONNX model converts
to.")
include(CPack)
