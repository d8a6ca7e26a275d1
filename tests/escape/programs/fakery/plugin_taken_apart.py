# expect: completed verdict=validated | run: program=module
# Whoever asks the framework for our plugin gets functions that lead to nothing.
def test_nothing_is_to_be_had(request):
    plugin = request.config.pluginmanager.get_plugin("assayd")
    hooks = [value for name, value in vars(plugin).items() if name.startswith("pytest_")]
    assert len(hooks) > 5
    for hook in hooks:
        assert set(hook.__globals__) == {"__builtins__", "told"}
        assert not hook.__globals__["__builtins__"] and hook.__closure__ is None
        assert not hasattr(hook.__globals__["told"], "__wrapped__")
