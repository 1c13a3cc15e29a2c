# Run in the folder of files that become a package, before it is made: what Debian wants besides
# the installation.
set(here ${CMAKE_CURRENT_LIST_DIR})
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(doc ${root}/usr/share/doc/cohort)

function(compress file)
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE ${doc}/LICENSE)  # the copyright names it
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
compress(${doc}/changelog)
file(GLOB pages ${doc}/*.md ${doc}/docs/*.md)
foreach(page IN LISTS pages)  # their links follow
  file(READ ${page} text)
  string(REPLACE "CHANGELOG.md)" "changelog.gz)" text "${text}")
  string(REPLACE "](LICENSE)" "](copyright)" text "${text}")
  file(WRITE ${page} "${text}")
endforeach()
file(COPY ${here}/copyright DESTINATION ${doc})
file(MAKE_DIRECTORY ${root}/usr/share/lintian/overrides)
configure_file(${here}/lintian-overrides ${root}/usr/share/lintian/overrides/cohort COPYONLY)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog.Debian
"cohort (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Changes: CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
compress(${doc}/changelog.Debian)
file(GLOB pages ${root}/usr/share/man/man1/*.1)
foreach(page IN LISTS pages)
  compress(${page})
endforeach()
