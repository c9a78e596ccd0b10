# SPDX-License-Identifier: Apache-2.0
# What find_package(Lowtide) finds: the header, the static libraries, and their targets.
include(CMakePackageConfigHelpers)
set(place ${CMAKE_INSTALL_LIBDIR}/cmake/Lowtide)
install(TARGETS lowtide_library lowtide_emit lowtide_layout lowtide_stream lowtide_schemas EXPORT Lowtide
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(FILES tools/library/lowtide/lowtide.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lowtide COMPONENT development)
install(EXPORT Lowtide NAMESPACE Lowtide:: DESTINATION ${place} COMPONENT development)
configure_package_config_file(tools/library/LowtideConfig.cmake.in ${PROJECT_BINARY_DIR}/LowtideConfig.cmake
                              INSTALL_DESTINATION ${place})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LowtideConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LowtideConfig.cmake ${PROJECT_BINARY_DIR}/LowtideConfigVersion.cmake
        DESTINATION ${place} COMPONENT development)
