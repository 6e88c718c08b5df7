# optrace_ship_source(TREE FILE): puts a source, which is built on the user's machine, into
# share/optrace/TREE, at its place in the repository. The build tree has a link, so that an edit needs
# no build.
function(optrace_ship_source tree file)
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${OPTRACE_DATA_DIR}/${tree}/${folder})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${file} ${OPTRACE_DATA_DIR}/${tree}/${file} SYMBOLIC)
  install(FILES ${CMAKE_SOURCE_DIR}/${file} DESTINATION share/optrace/${tree}/${folder})
endfunction()

# optrace_ship_recorder(TREE): the sources that every recorder includes.
function(optrace_ship_recorder tree)
  file(GLOB files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/target/recorder/*.h)
  foreach(file target/interface/agent.h target/interface/recorder.h
               target/interface/recording_format.h ${files})
    optrace_ship_source(${tree} ${file})
  endforeach()
endfunction()
