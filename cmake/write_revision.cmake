execute_process(COMMAND git describe --always --dirty --abbrev=12
  WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE revision ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT revision)
  set(revision "unknown")
endif()
set(text "#pragma once
#define COHORT_VERSION \"${VERSION}\"
#define COHORT_REVISION \"${revision}\"
#define COHORT_BUILD_TYPE \"${BUILD_TYPE}\"
#define COHORT_COMPILER \"${COMPILER}\"
")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
