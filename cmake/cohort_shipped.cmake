# Files that become part of the program, so that an installed one finds them wherever it is.

# cohort_embed(TARGET HEADER FUNCTION FILE...): the source of FUNCTION, which HEADER declares:
#   std::span<const ShippedFile> FUNCTION();
function(cohort_embed target header function)
  set(symbols "")
  set(entries "")
  set(index 0)
  foreach(file IN LISTS ARGN)
    get_filename_component(stem ${file} NAME_WE)
    set(symbol "cohort_${function}_${index}")
    string(APPEND symbols "__asm__(\".section .rodata\\n${symbol}: .incbin \\\"${file}\\\"\\n\"
        \"${symbol}_end: .previous\");
extern \"C\" const char ${symbol}[];
extern \"C\" const char ${symbol}_end[];
")
    string(APPEND entries "        {\"${stem}\", {${symbol}, ${symbol}_end}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
#include "@header@"

#include <array>

@symbols@
namespace cohort {

std::span<const ShippedFile> @function@() {
    static const std::array<ShippedFile, @index@> files{{
@entries@    }};
    return files;
}

}  // namespace cohort
]])
  # The compiler does not tell which files the assembler read.
  set_source_files_properties(${source} PROPERTIES
    OBJECT_DEPENDS "${ARGN}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
