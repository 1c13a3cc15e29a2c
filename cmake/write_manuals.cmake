# Writes the manual pages and the completion of an installation: what the program and the launcher
# say of themselves. COHORT: the program, LAUNCHER: launch.sh, OUT: folder, VERSION.
function(words_of out)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: exit code ${status}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Never half written: another installation of the same build may read it.
function(put name text)
  string(RANDOM part)
  file(WRITE ${OUT}/${part} "${text}")
  file(RENAME ${OUT}/${part} ${OUT}/${name})
endfunction()

words_of(text ${COHORT} options --man)
put(cohort.1 "${text}")
words_of(text ${COHORT} options --bash)
put(cohort.bash "${text}")

words_of(text bash ${LAUNCHER} --help)
string(REPLACE "${LAUNCHER}" "cohort-launch" text "${text}")
string(REPLACE "\\" "\\e" text "${text}")
string(REPLACE "-" "\\-" text "${text}")
put(cohort-launch.1 ".TH COHORT\\-LAUNCH 1 \"\" \"cohort ${VERSION}\" \"User Commands\"
.SH NAME
cohort\\-launch \\- starts cohort on many ranks
.SH DESCRIPTION
.nf
${text}.fi
.SH SEE ALSO
.BR cohort (1),
.BR mpirun (1)
")
