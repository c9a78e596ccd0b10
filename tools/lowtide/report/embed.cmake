# SPDX-License-Identifier: Apache-2.0
# Puts style and script into the page, their SHA-256 digests into its content security policy, and writes the page as
# two strings of C++: what stands before the JSON of a report, and what follows it.
#   cmake -D FOLDER=tools/lowtide/report -D OUT=report_page.cc -P embed.cmake
cmake_minimum_required(VERSION 3.25)

set(BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

# The digest of a text as a policy names it. Three hexadecimal digits are two letters of base64; of 64 digits the last
# one is left over.
function(digest text out)
  string(SHA256 hex "${text}")
  set(base64 "")
  foreach(at RANGE 0 60 3)
    string(SUBSTRING ${hex} ${at} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING ${BASE64} ${high} 1 first)
    string(SUBSTRING ${BASE64} ${low} 1 second)
    string(APPEND base64 ${first}${second})
  endforeach()
  string(SUBSTRING ${hex} 63 1 last)
  math(EXPR last "0x${last} << 2")
  string(SUBSTRING ${BASE64} ${last} 1 last)
  set(${out} "sha256-${base64}${last}=" PARENT_SCOPE)
endfunction()

file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
set(script "")
foreach(part text charts graph page)
  file(READ ${FOLDER}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
digest("${style}" style_digest)
digest("${script}" script_digest)
foreach(name style_digest script_digest style script)
  string(TOUPPER ${name} mark)
  string(REPLACE "{{${mark}}}" "${${name}}" page "${page}")
endforeach()
set(mark "{{REPORT}}")
string(FIND "${page}" "${mark}" at)
string(LENGTH "${mark}" length)
string(SUBSTRING "${page}" 0 ${at} head)
math(EXPR at "${at} + ${length}")
string(SUBSTRING "${page}" ${at} -1 tail)
file(WRITE ${OUT} "// Made by tools/lowtide/report/embed.cmake.
#include \"tools/lowtide/report_page.h\"

namespace lowtide::tools {

const std::string_view kPageHead = R\"lowtide(${head})lowtide\";
const std::string_view kPageTail = R\"lowtide(${tail})lowtide\";

}  // namespace lowtide::tools
")
