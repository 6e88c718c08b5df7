# optrace_ship_source(TREE FILE): puts a source, which is built on the user's machine, into
# share/optrace/TREE, at its place in the repository. The build tree has a link, so that an edit needs
# no build.
function(optrace_ship_source tree file)
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${OPTRACE_DATA_DIR}/${tree}/${folder})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${file} ${OPTRACE_DATA_DIR}/${tree}/${file} SYMBOLIC)
  install(FILES ${CMAKE_SOURCE_DIR}/${file} DESTINATION share/optrace/${tree}/${folder})
endfunction()
